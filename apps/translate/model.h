// The models that translate can train, behind one type.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tern/apps/translate/config.h"
#include "tern/data/text/pair_loader.h"
#include "tern/models/bahdanau.h"
#include "tern/models/seq2seq.h"
#include "tern/models/transformer.h"
#include "tern/nn/decode.h"

namespace tern::apps::translate {

/// How a translation is looked for.
struct SearchOptions {
  int64_t beam = 1;    ///< 1: greedy
  double alpha = 0.6;  ///< of the length penalty
  int64_t n_best = 1;
  bool unknown = false;  ///< whether <unk> may be said
};

/// Attention of one kind in one layer, 1, 2, ...
struct AttentionMap {
  std::string kind;  ///< encoder, decoder, cross, alignment
  int64_t layer;
  Tensor weights;  ///< (H, T, S), of an alignment (T, S): T target tokens, S source tokens
};

class TranslationModel {
 public:
  /// Weights drawn from `seed`.
  TranslationModel(const ModelConfig& config, uint64_t seed);

  /// (B, T, V) for the tokens of a batch.
  Tensor logits(const data::PairBatch& batch) const;
  /// Their cross entropy, without all of them at a time.
  Tensor loss(const data::PairBatch& batch, const CrossEntropyOptions& options) const;
  /// Translations of sources (ids without <eos>), best first. Gradients off; call it in evaluation
  /// mode. Its length is
  /// limited by config.h's length_ratio.
  std::vector<std::vector<nn::Hypothesis>> translate(std::span<const std::vector<int64_t>> sources,
                                                     const SearchOptions& options) const;
  /// All attention of a source with a translation, both ids; rows are the tokens that are said
  /// (the last one is <eos>), columns and rows of the encoder the source's tokens and <eos>.
  std::vector<AttentionMap> attention(const std::vector<int64_t>& source,
                                      const std::vector<int64_t>& target) const;

  /// Tokens that a translation of so many may have, its end included.
  int64_t longest_translation(int64_t source) const;

  const ModelConfig& config() const { return config_; }

  static void fields(auto& m, auto&& visit) { visit("", m.model_); }

 private:
  ModelConfig config_;
  std::variant<models::Transformer, models::Bahdanau, models::LstmSeq2Seq> model_;
};

}  // namespace tern::apps::translate
