// The training of a BERT: what of it the loop (train/loop.h) and the driver
// (apps/common/train_program.h) cannot know.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tern/apps/lm/training.h"
#include "tern/models/bert.h"

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
  std::unique_ptr<optim::Optimizer> optimizer;
  train::Learner learner;
  train::Loop loop;

 private:
  Tensor loss(const data::BertBatch& batch, train::Means& means) const;
  std::optional<train::Metrics> validate() const;
  void add_pictures(train::EventWriter& events, int64_t step);
};

class BertProgram : public LmProgram {
 public:
  using LmProgram::LmProgram;

  void read_config(const train::RunFolder& folder,
                   const std::optional<SafeTensors>& state) override;
  int64_t steps() const override { return total_steps(config, corpus, *pieces); }
  Summary summary() const override;
  void save(const train::RunFolder& folder) const override;
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  train::Loop& make_loop(train::LoopOptions options, bool resumed) override;

  std::optional<data::WordPiece> pieces;
  BertCorpus corpus;
  std::unique_ptr<BertTraining> training;

 private:
  bool encode(bool resumed) override;
  std::string model_text() const override;
  std::string data_text() const override;
  const train::Loop& loop() const override { return training->loop; }
  Ending ending(const RunSummary& run) const override;
};

/// "bert, 805,248 weights: 4 layers of 128 channels, ...".
std::string describe_model(const models::Bert& model);

}  // namespace tern::apps::lm
