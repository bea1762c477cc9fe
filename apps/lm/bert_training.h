// The training of a BERT: what of it the loop (train/loop.h) cannot know.
#pragma once

#include <optional>

#include "tern/apps/common/launch.h"
#include "tern/apps/lm/bert_text.h"
#include "tern/models/bert.h"
#include "tern/optim/adam.h"
#include "tern/train/loop.h"

namespace tern::apps::lm {

/// Of the whole run, on this corpus. (Epochs differ by a batch or two; the first one counts.)
int64_t total_steps(const TrainConfig& config, const BertCorpus& corpus,
                    const data::WordPiece& pieces);

/// Its metrics: train_loss, train_masked, train_next; valid_loss, valid_masked, valid_ppl (its
/// exponential), valid_words (share of masked words that are right), valid_next, valid_pairs (share
/// of pairs that are right). What there is not is NaN: pairs, text for validation. Corpus and
/// pieces must outlive it.
struct BertTraining {
  /// Of `loop_options` folder, terminal, tensorboard and on_epoch count. The weights of the best
  /// epoch are written as model.safetensors.
  BertTraining(const TrainConfig& config, const BertCorpus& corpus, const data::WordPiece& pieces,
               models::Bert model, train::LoopOptions loop_options = {});
  BertTraining(const BertTraining&) = delete;
  BertTraining& operator=(const BertTraining&) = delete;

  TrainConfig config;
  const BertCorpus& corpus;
  const data::WordPiece& pieces;
  models::Bert model;
  data::Loader<data::BertBatch> loader;
  optim::AdamW optimizer;
  train::Learner learner;
  train::Loop loop;

 private:
  Tensor loss(const data::BertBatch& batch, train::Means& means) const;
  std::optional<train::Metrics> validate() const;
  train::LoopOptions complete(train::LoopOptions loop_options);
  void add_pictures(train::EventWriter& events, int64_t step);
};

/// Model, data, recipe, machine: a heading and a text each.
Facts describe(const BertTraining& training, const Texts& texts);
/// "bert, 805,248 weights: 4 layers of 128 channels, ...".
std::string describe_model(const models::Bert& model);
/// One line on an epoch.
std::string bert_epoch_line(const train::EpochRecord& epoch, int64_t epochs);

}  // namespace tern::apps::lm
