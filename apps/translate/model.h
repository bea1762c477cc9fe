// The models that translate can train, behind one type.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tern/apps/translate/config.h"
#include "tern/data/text/pairs/pair_loader.h"
#include "tern/models/bahdanau.h"
#include "tern/models/seq2seq.h"
#include "tern/models/transformer.h"

namespace tern::apps::translate {

/// Receives the attention of one kind (Encoder, Decoder, Cross attention, Alignment) in a layer
/// (1, 2, ...): weights (H, T, S), for an alignment (T, S), with T target and S source tokens.
using TakeAttention =
    std::function<void(const std::string& kind, int64_t layer, const Tensor& weights)>;

class TranslationModel {
 public:
  /// Random weights from `seed`. Only transformers use `recompute` (nn::recompute_names).
  TranslationModel(const ModelConfig& config, uint64_t seed, const std::string& recompute = "none");
  /// The untrained model of a training.
  explicit TranslationModel(const TrainConfig& c)
      : TranslationModel(c.model, c.seed, c.memory_use.recompute) {}

  /// Logits (B, T, V) for the tokens of a batch.
  Tensor logits(const datasets::PairBatch& batch) const;
  /// Their cross entropy, without all logits in memory at once.
  Tensor loss(const datasets::PairBatch& batch, const CrossEntropyOptions& options) const;
  /// Passes all attention of a source and its translation, both as ids, to `take`. Rows are the
  /// tokens of the translation and <eos>; columns, and the encoder's rows, those of the source and
  /// <eos>.
  void attend(const std::vector<int64_t>& source, const std::vector<int64_t>& target,
              const TakeAttention& take) const;

  /// The largest number of tokens of a translation of `source` tokens, <eos> included.
  int64_t longest_translation(int64_t source) const;

  const ModelConfig& config() const { return config_; }

  static void fields(auto& m, auto&& visit) { visit("", m.model_); }

  using Network = std::variant<models::Transformer, models::Bahdanau, models::LstmSeq2Seq>;
  const Network& network() const { return model_; }

 private:
  friend class Search;
  ModelConfig config_;
  Network model_;
};

}  // namespace tern::apps::translate
