// From tensors of weights to the pictures of attention_view.h, for every model that attends or
// addresses a memory: records are gathered layer by layer, and shown as a page, a picture or text.
//
//   AttentionSentence s{source, translation, "", {}};
//   record_attention(s, "Cross attention", 2, weights, target_tokens, source_tokens);
//   write_attention("cross.svg", "Attention", {s});
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/attention_view.h"
#include "tern/core/tensor/tensor.h"

namespace tern::apps {

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

}  // namespace tern::apps
