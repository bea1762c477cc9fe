// Pictures of attention for reports and terminals: source tokens across, target tokens down, a cell
// a weight. Plain data in, text out.
//
// All pictures share one scale, so that heads can be compared: 0 is white, 1 the darkest, and the
// shade goes with the square root of the weight, so that a weight of 1/20 is still seen. Weights
// outside [0, 1] take the nearest end; NaN is grey ("??" in a terminal without colours). Tokens may
// be any bytes: what cannot be printed is replaced, long ones end in an ellipsis.
//
// Errors: a number of weights that is not rows x columns, or heads of one layer in different sizes.
//
//   AttentionSentence s{source, translation, "", {}};
//   record_attention(s, "Cross attention", 2, weights, target_tokens, source_tokens);
//   write_attention("cross.svg", "Attention", {s});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/common/heatmap.h"
#include "tern/core/tensor/tensor.h"

namespace tern::apps {

struct AttentionMatrix {
  std::string title;                 ///< "cross, layer 2, head 3"
  std::vector<std::string> columns;  ///< source tokens, across
  std::vector<std::string> rows;     ///< target tokens, down
  std::vector<float> weights;        ///< rows x columns, row-major
  int64_t layer = 1, head = 1;       ///< the place in a page's grid and how it is labelled there
};

/// Matrices that belong together: "Encoder", "Decoder", "Cross attention", "Alignment".
struct AttentionGroup {
  std::string title;
  std::vector<AttentionMatrix> matrices;  ///< heads of a layer have the same tokens
};

struct AttentionSentence {
  std::string source, translation;
  std::string note;  ///< shown in small print: a score, a reference
  std::vector<AttentionGroup> groups;
};

/// HTML for a page of html.h, without a heading. For each sentence and group: a layer's average
/// over its heads, whose cells say their tokens and weight on hovering, and a grid of small
/// pictures with layers down and heads across. A click on one shows it large, with its tokens.
/// It stays below 1.9 MB: where there are too many sentences for that, they have fewer pictures
/// (the first one the most), down to one a sentence, then none; and sentences that no longer fit as
/// text are counted at the end.
std::string attention_page(const std::vector<AttentionSentence>& sentences);

/// Lines for a terminal: a heading of upright tokens, then a line a target token with two columns
/// of the terminal a weight: shades of blue as 256-colour backgrounds, or " ░▒▓█". No line is wider
/// than `width` (taken as 20 at least); source tokens that do not fit follow in further parts.
std::string attention_text(const AttentionMatrix& matrix, int width, bool colour);

/// Adds the heads of a layer (1, 2, ...) to the group of that title, behind the last group if there
/// is none: weights (H, T, S), or (T, S) for one head, with T rows and S columns of tokens.
void record_attention(AttentionSentence& sentence, const std::string& group, int64_t layer,
                      const Tensor& weights, const std::vector<std::string>& rows,
                      const std::vector<std::string>& columns);

/// The mean of the heads of each layer, in the order of layers; a single head as it is. Titles say
/// which layer: "Decoder, layer 2, mean of its heads".
std::vector<AttentionMatrix> layer_means(const AttentionGroup& group);

/// The mean of matrices of one size, with the tokens of the first and no title. REQUIRES: at least
/// one matrix.
AttentionMatrix mean_of(const std::vector<AttentionMatrix>& matrices);

/// The source, the translation, and the layers' means of these groups, for a terminal.
std::string attention_means_text(const AttentionSentence& sentence,
                                 const std::vector<AttentionGroup>& groups, int width, bool colour);

/// Writes a file, atomically, of the kind that the ending of `path` says:
///   .html  a page with every sentence, layer and head;
///   .svg   the layers' means of every group, with tokens and a scale, one below the other;
///   .png   the same without tokens (see the .svg for these), 12 pixels a weight.
/// Error: another ending.
void write_attention(const std::string& path, const std::string& title,
                     const std::vector<AttentionSentence>& sentences);
/// Error if the ending is another one. Call it before anything is computed.
void check_attention_path(const std::string& path);

// What the pictures for pages, files and terminals have in common.

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
