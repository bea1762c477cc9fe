// The training of a language model that goes on with texts: what of it the loop (train/loop.h) and
// the driver (apps/common/train_program.h) cannot know.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tern/apps/lm/family.h"
#include "tern/apps/lm/training.h"

namespace tern::apps::lm {

/// Of the whole run, on this corpus.
int64_t total_steps(const TrainConfig& config, const Corpus& corpus);

/// Its metrics: train_loss (mean of a token), train_bits_per_byte, valid_loss, valid_ppl (its
/// exponential), valid_bits_per_byte; the last three are NaN without text for validation. The
/// corpus must outlive it.
struct LmTraining {
  /// Of `loop_options` folder, terminal, tensorboard and on_epoch count. The weights of the best
  /// epoch are written as model.safetensors.
  LmTraining(const TrainConfig& config, const Corpus& corpus, LanguageModel model,
             train::LoopOptions loop_options = {});
  LmTraining(const LmTraining&) = delete;
  LmTraining& operator=(const LmTraining&) = delete;

  TrainConfig config;
  const Corpus& corpus;
  LanguageModel model;
  data::Loader<data::WindowBatch> loader;
  std::unique_ptr<optim::Optimizer> optimizer;
  train::Learner learner;
  train::Loop loop;

 private:
  Tensor loss(const data::WindowBatch& batch, train::Means& means) const;
  std::optional<train::Metrics> validate() const;
  void add_pictures(train::EventWriter& events, int64_t step);
};

class GptProgram : public LmProgram {
 public:
  using LmProgram::LmProgram;

  void read_config(const train::RunFolder& folder,
                   const std::optional<SafeTensors>& state) override;
  int64_t steps() const override { return total_steps(config, corpus); }
  Summary summary() const override;
  void save(const train::RunFolder& folder) const override;
  void check_fits(const SafeTensors& checkpoint, const std::string& path) const override;
  train::Loop& make_loop(train::LoopOptions options, bool resumed) override;

  data::ByteBpe tokenizer;
  Corpus corpus;
  std::unique_ptr<LmTraining> training;

 private:
  bool encode(bool resumed) override;
  std::string model_text() const override;
  std::string data_text() const override;
  const train::Loop& loop() const override { return training->loop; }
  Ending ending(const RunSummary& run) const override;
};

/// "gpt, 805,248 weights: 4 layers of 128 channels, ...".
std::string describe_model(const LanguageModel& model);

}  // namespace tern::apps::lm
