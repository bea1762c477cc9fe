// The training of a BERT.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tern/apps/lm/training.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

struct BertKind;
using BertTraining = Training<BertKind>;
using BertProgram = KindProgram<BertKind>;

/// Its metrics: train_loss, train_masked, train_next; valid_loss, valid_masked, valid_ppl (its
/// exponential), valid_words (share of masked words that are right), valid_next, valid_pairs (share
/// of pairs that are right). What there is not is NaN: pairs, text for validation.
struct BertKind {
  using Model = models::Bert;
  using Corpus = BertCorpus;
  using Batch = data::BertBatch;

  /// Makes of the texts what is trained on, with the tokenizer of the folder `resumed`; for a new
  /// run, where that is empty, makes tokenizer and sizes too. Whether something is held out.
  static bool encode(TrainConfig& config, const std::string& resumed, const std::string& scratch,
                     Corpus& corpus);
  static void save_missing(const ModelFiles&, const Corpus&) {}
  static Model draw(const TrainConfig& config, const Corpus& corpus);
  static void load(const std::string& path, Model& model) {
    models::load_bert_weights(path, model);
  }
  static std::array<Tensor*, 6> tensors(Batch& b) {
    return {&b.tokens, &b.segments, &b.lengths, &b.places, &b.words, &b.next};
  }
  /// The largest batch of an epoch.
  static Batch largest(data::Loader<Batch>& loader);
  static double weight(const Batch& b) { return sum(b.lengths).item(); }
  static Tensor loss(const Model& model, const Batch& batch, const Corpus& corpus,
                     train::Means* means);
  static int64_t valid_tokens(const Corpus& c) { return std::ssize(c.valid->tokens); }
  static std::optional<train::Metrics> validate(const BertTraining& training);
  static std::string losses(const train::EpochRecord& epoch);
  static void add_pictures(const BertTraining& training, train::EventWriter& events, int64_t step);
  /// "bert, 805,248 weights: 4 layers of 128 channels, ...".
  static std::string describe(const Model& model);
  static std::string data_text(const Corpus& corpus);
  static Ending ending(const TrainConfig& config, const Corpus& corpus, const train::Loop& loop,
                       const RunSummary& run);
};

}  // namespace tern::apps::lm
