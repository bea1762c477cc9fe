// Pictures of attention for reports and terminals: source tokens across, target tokens down, one
// cell per weight. Plain data in, text out.
//
// All pictures share one scale, so that heads can be compared: 0 is white, 1 is darkest. The shade
// is the square root of the weight, so that a weight of 1/20 is still visible. Weights outside
// [0, 1] are clamped; NaN is grey ("??" in a terminal without colours). Tokens may be any bytes:
// unprintable ones are replaced, long ones end in an ellipsis.
//
// Errors: the number of weights is not rows x columns; heads of one layer differ in size.
//
//   AttentionSentence s{source, translation, "", {}};
//   record_attention(s, "Cross attention", 2, weights, target_tokens, source_tokens);
//   write_attention("cross.svg", "Attention", {s});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/common/pages/heatmap.h"
#include "tern/core/tensor/tensor.h"

namespace tern::apps {

struct AttentionMatrix {
  std::string title;                 ///< "cross, layer 2, head 3"
  std::vector<std::string> columns;  ///< source tokens, across
  std::vector<std::string> rows;     ///< target tokens, down
  std::vector<float> weights;        ///< rows x columns, row-major
  int64_t layer = 1, head = 1;       ///< place and label in a page's grid
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

/// HTML for a page of html.h, without a heading. Each sentence and group has the mean over the
/// heads of each layer, whose cells show their tokens and weight on hovering, and a grid of small
/// pictures with layers down and heads across. A click on a small picture shows it large, with its
/// tokens. The HTML stays below 1.9 MB: with many sentences each has fewer pictures (the first
/// keeps the most), down to one per sentence, then none. A line at the end counts the sentences
/// that do not fit even as text.
std::string attention_page(const std::vector<AttentionSentence>& sentences);

/// Lines for a terminal: a heading of tokens written downwards, then one line per target token, two
/// terminal columns per weight: shades of blue as 256-colour backgrounds, or " ░▒▓█". No line is
/// wider than `width` (at least 20); source tokens that do not fit follow in further parts.
std::string attention_text(const AttentionMatrix& matrix, int width, bool colour);

/// Adds the heads of a layer (1, 2, ...) to the group of that title, which is appended if it does
/// not exist: weights (H, T, S), or (T, S) for one head, with T rows and S columns of tokens.
void record_attention(AttentionSentence& sentence, const std::string& group, int64_t layer,
                      const Tensor& weights, const std::vector<std::string>& rows,
                      const std::vector<std::string>& columns);

/// The mean of the heads of each layer, in the order of layers. The title names the layer:
/// "Decoder, layer 2, mean of its heads". A single head stays as it is.
std::vector<AttentionMatrix> layer_means(const AttentionGroup& group);

/// The mean of matrices of the same size, with the tokens of the first and no title. REQUIRES: at
/// least one matrix.
AttentionMatrix mean_of(const std::vector<AttentionMatrix>& matrices);

/// The source, the translation and the layer means of these groups, for a terminal.
std::string attention_means_text(const AttentionSentence& sentence,
                                 const std::vector<AttentionGroup>& groups, int width, bool colour);

/// Writes a file atomically. The ending of `path` says its format:
///   .html  a page with every sentence, layer and head;
///   .svg   the layer means of every group, with tokens and a scale, one below the other;
///   .png   the same without tokens, 12 pixels per weight.
/// Error: another ending.
void write_attention(const std::string& path, const std::string& title,
                     const std::vector<AttentionSentence>& sentences);

/// For a command that computes long before it writes: Error for another ending, IoError if the
/// file's folder does not exist. An empty path is no file.
void check_attention_file(const std::string& path);

// Shared by the pictures for pages, files and terminals.

/// How dark a weight is, in [0, 1]; NaN for NaN.
double attention_shade(float weight);

/// Error unless there are rows x columns weights.
void check_attention(const AttentionMatrix& matrix);

/// The text made safe for one line: invalid UTF-8 becomes U+FFFD, control characters their Unicode
/// pictures, white space `space`. Characters that change the writing direction are removed.
std::string printable(std::string_view text, char32_t space);

/// Stands for a space in tokens.
inline constexpr char32_t kOpenBox = 0x2423;

/// One pixel per weight.
Bitmap attention_bitmap(const AttentionMatrix& matrix);

/// The matrix with its tokens; longer sentences have smaller cells. `hover`: each cell has a title
/// with its tokens and weight, unless there are more than 10,000 cells (to limit the size).
/// `thumbnail`: see MatrixStyle.
Drawing draw_attention(const AttentionMatrix& matrix, bool hover, int thumbnail = 0);

/// The scale of all pictures.
std::string attention_legend();

}  // namespace tern::apps
