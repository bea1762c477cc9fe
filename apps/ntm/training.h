// The training on a task, based on the loop in train/loop.h. An epoch is the sequences from one
// validation to the next.
#pragma once

#include <memory>
#include <optional>

#include "tern/apps/common/training/launch.h"
#include "tern/apps/ntm/evaluate.h"
#include "tern/optim/optimizer.h"
#include "tern/train/loop.h"

namespace tern::apps::ntm {

datasets::Loader<datasets::SequenceBatch> training_batches(const NtmConfig& config);
/// rmsprop has the paper's settings; all other optimizers come from make_optimizer().
std::unique_ptr<optim::Optimizer> make_ntm_optimizer(const NtmConfig& config,
                                                     const NamedTensors& parameters);

/// A training. Its metrics: train_loss (nats per sequence), sequences (trained on so far), and on
/// the validation sequences loss (nats), bits_per_sequence, wrong_bits, and for n-grams
/// best_predictor.
struct NtmTraining {
  /// Uses the folder's part, how_to_resume and terminal of `loop_options`.
  explicit NtmTraining(const NtmConfig& config, training::LoopOptions loop_options = {});
  NtmTraining(const NtmTraining&) = delete;
  NtmTraining& operator=(const NtmTraining&) = delete;

  NtmConfig config;
  datasets::SequenceTask task;
  datasets::Loader<datasets::SequenceBatch> loader;
  SequenceModel model;
  std::unique_ptr<optim::Optimizer> optimizer;
  training::Learner learner;
  training::Loop loop;

 private:
  std::optional<training::Metrics> evaluate() const;
  training::LoopOptions complete(training::LoopOptions loop_options);
  void add_pictures(training::EventWriter& events, int64_t step);
};

/// Task and model, each as a heading and a text.
Facts describe(const NtmConfig& config, const SequenceModel& model);

}  // namespace tern::apps::ntm
