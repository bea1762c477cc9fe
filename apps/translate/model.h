// The models that translate can train, behind one type.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tern/apps/translate/config.h"
#include "tern/data/text/pair_loader.h"
#include "tern/models/bahdanau.h"
#include "tern/models/seq2seq.h"
#include "tern/models/transformer.h"

namespace tern::apps::translate {

/// Attention of one kind in one layer, 1, 2, ...
struct AttentionMap {
  std::string kind;  ///< Encoder, Decoder, Cross attention, Alignment
  int64_t layer;
  Tensor weights;  ///< (H, T, S), of an alignment (T, S): T target tokens, S source tokens
};

class TranslationModel {
 public:
  /// Weights drawn from `seed`; a transformer may recompute (nn::recompute_names).
  TranslationModel(const ModelConfig& config, uint64_t seed, const std::string& recompute = "none");
  /// What a training starts with.
  explicit TranslationModel(const TrainConfig& c)
      : TranslationModel(c.model, c.seed, c.memory_use.recompute) {}

  /// (B, T, V) for the tokens of a batch.
  Tensor logits(const data::PairBatch& batch) const;
  /// Their cross entropy, without all of them at a time.
  Tensor loss(const data::PairBatch& batch, const CrossEntropyOptions& options) const;
  /// All attention of a source with a translation, both ids; rows are the tokens that are said
  /// (the last one is <eos>), columns and rows of the encoder the source's tokens and <eos>.
  std::vector<AttentionMap> attention(const std::vector<int64_t>& source,
                                      const std::vector<int64_t>& target) const;

  /// Tokens that a translation of so many may have, its end included.
  int64_t longest_translation(int64_t source) const;

  const ModelConfig& config() const { return config_; }

  static void fields(auto& m, auto&& visit) { visit("", m.model_); }

 private:
  friend class Search;
  ModelConfig config_;
  std::variant<models::Transformer, models::Bahdanau, models::LstmSeq2Seq> model_;
};

}  // namespace tern::apps::translate
