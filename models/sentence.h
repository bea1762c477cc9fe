// Vectors of texts: the states of an encoder, pooled, as sentence-transformers makes them. B texts,
// T tokens, D channels.
//
//   Rng rng(0);
//   models::Bert model = models::load_bert_encoder("all-MiniLM-L6-v2/model.safetensors", rng);
//   Tensor vectors = models::embed(model, texts);              // (number of texts, D), in order
//   Tensor similarity = matmul(vectors, transpose(vectors, 0, 1));           // cosines
//
// `texts` are ids with the model's special tokens, such as those of PretrainedTokenizer::encode()
// (data/text/pretrained/pretrained_tokenizer.h), cut to the model's length. The program: lm embed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tern/models/bert.h"

namespace tern::models {

enum class Pooling {
  mean,   ///< of the tokens' states
  first,  ///< the state of the first token, [CLS]
  last,   ///< the state of the last token
  max,    ///< the largest value of each channel
};
/// mean, first, last, max.
const std::vector<std::string>& pooling_names();
Pooling pooling_named(const std::string& name);

/// hidden (B, T, D), lengths i64 (B), each from 1 to T: the padding stands behind the text and does
/// not count. -> (B, D). Error: other shapes; a text without tokens.
Tensor pool(const Tensor& hidden, const Tensor& lengths, Pooling pooling);

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalise = true;  ///< scales vectors to length 1
  /// The most tokens, with their padding, that are computed at once; a longer text is alone.
  int64_t batch_tokens = 2048;
  /// Called after each batch with the number of texts so far; false ends it.
  std::function<bool(int64_t)> progress = {};
};

/// tokens i64 (B, T), lengths i64 (B) -> (B, D), for training: in the model's mode, with gradients.
Tensor embed(const Bert& model, const Tensor& tokens, const Tensor& lengths,
             const EmbedOptions& options = {});

/// The vectors of texts of any lengths, in their order: (number of texts, D). Computes texts of
/// similar lengths together, in evaluation and without gradients. Several threads may share a model
/// that is in evaluation, as load_bert_encoder() gives it. Undefined if `progress` ended it.
/// Error: a text has no tokens, or more than the model's positions.
Tensor embed(const Bert& model, std::span<const std::vector<int64_t>> texts,
             const EmbedOptions& options = {});

}  // namespace tern::models
