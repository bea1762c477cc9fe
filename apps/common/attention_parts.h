// What the pictures of attention_view.h for pages, files and terminals have in common.
#pragma once

#include <string>
#include <string_view>

#include "tern/apps/common/attention_view.h"
#include "tern/apps/common/heatmap.h"

namespace tern::apps {

/// How dark a weight is, in [0, 1]; NaN for NaN.
double attention_shade(float weight);

/// Error unless there are rows x columns weights.
void check_attention(const AttentionMatrix& matrix);

/// The text as it can be shown in one line: invalid UTF-8 as U+FFFD, control characters as their
/// pictures, white space as `space`, without the characters that turn the direction of what
/// follows.
std::string printable(std::string_view text, char32_t space);

/// What stands for a space in tokens.
inline constexpr char32_t kOpenBox = 0x2423;

/// A pixel a weight.
Bitmap attention_bitmap(const AttentionMatrix& matrix);

/// The matrix with its tokens; smaller cells for longer sentences. `hover`: a title a cell with
/// tokens and weight, up to 10,000 cells, for the size's sake. `thumbnail`: as MatrixStyle has it.
Drawing draw_attention(const AttentionMatrix& matrix, bool hover, int thumbnail = 0);

/// The scale of all pictures.
std::string attention_legend();

}  // namespace tern::apps
