// What the pictures of attention_view.h for pages and terminals have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/apps/common/attention_view.h"
#include "tern/apps/common/html.h"

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

/// A pixel a weight. REQUIRES: the matrix is not empty.
Bitmap attention_bitmap(const AttentionMatrix& matrix);

struct AttentionStyle {
  int cell = 18;       ///< pixels from one cell to the next
  bool hover = true;   ///< a title a cell with tokens and weight; else the cells are one image
  bool legend = true;  ///< a scale below
};

/// How a matrix is best shown by itself: smaller cells for longer sentences.
AttentionStyle large_attention(const AttentionMatrix& matrix);

/// The matrix as an <svg> element, and its size in pixels.
struct AttentionDrawing {
  std::string svg;
  int width = 0, height = 0;
};
AttentionDrawing draw_attention(const AttentionMatrix& matrix, const AttentionStyle& style);

/// The scale alone, as an <svg> element.
std::string attention_legend();

}  // namespace tern::apps
