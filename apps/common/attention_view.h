// Pictures of attention for reports and terminals: source tokens across, target tokens down, a cell
// a weight. Plain data in, text out.
//
// All pictures share one scale, so that heads can be compared: 0 is white, 1 the darkest, and the
// shade goes with the square root of the weight, so that a weight of 1/20 is still seen. Weights
// outside [0, 1] take the nearest end; NaN is grey ("??" in a terminal without colours). Tokens may
// be any bytes: what cannot be printed is replaced, long ones end in an ellipsis.
//
// Errors: a number of weights that is not rows x columns, or heads of one layer in different sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace tern::apps
