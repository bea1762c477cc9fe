// The training of a language model: what of it the loop (train/loop.h) cannot know.
#pragma once

#include <memory>
#include <optional>

#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/family.h"
#include "tern/data/text/window_loader.h"
#include "tern/optim/optimizer.h"
#include "tern/train/loop.h"

namespace tern::apps::lm {

/// Of the whole run, on this corpus.
int64_t total_steps(const TrainConfig& config, const Corpus& corpus);

/// AdamW, clipping and averages as the configuration says; without the schedule.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                 const NamedTensors& parameters);
train::LearnerOptions learner_options(const TrainConfig& config);
data::Loader<data::WindowBatch> training_batches(const TrainConfig& config, const Corpus& corpus);

/// What is minimised: the mean of a token.
Tensor training_loss(const LanguageModel& model, const data::WindowBatch& batch);

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
  train::LoopOptions complete(train::LoopOptions loop_options);
  void add_pictures(train::EventWriter& events, int64_t step);
};

}  // namespace tern::apps::lm
