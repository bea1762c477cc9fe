// The recipe that all training programs share: optimizer, rate, gradient, memory, ends of epochs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/apps/common/settings.h"
#include "tern/optim/optimizer.h"
#include "tern/train/learner.h"
#include "tern/train/schedule.h"

namespace tern::train {
struct LoopOptions;
}

namespace tern::apps {

/// What a training may do to take less memory.
struct MemoryOptions {
  bool step_in_backward = false;   ///< train::LearnerOptions
  std::string recompute = "none";  ///< nn::Recompute, of the model's blocks
  int64_t optimizer_bits = 32;     ///< or 8: optim::AdamOptions::state_bits

  bool operator==(const MemoryOptions&) const = default;
};

/// What a training does as an epoch ends.
struct EpochEndOptions {
  int64_t patience = 0;          ///< train::LoopOptions
  int64_t keep = 0;              ///< train::LoopOptions
  int64_t plateau_patience = 2;  ///< train::ScheduleOptions
  double plateau_factor = 0.5;   ///< train::ScheduleOptions

  bool operator==(const EpochEndOptions&) const = default;
};

struct TrainingOptions {
  int64_t epochs = 10;
  std::string optimizer = "adamw";  ///< one of train::optimizer_names()
  double lr = 1e-3;
  std::string schedule = "cosine";  ///< one of train::schedule_names()
  int64_t warmup = 0;               ///< steps
  double beta2 = 0;                 ///< of Adam and its kin; 0: the optimizer's own
  double weight_decay = 0;
  bool decay_all = false;  ///< of biases and the weights of norms too, not of matrices alone
  int64_t accumulate = 1;  ///< batches a step
  double clip = 1;         ///< largest norm of the gradient; 0: off
  double ema = 0;          ///< decay of averaged weights; 0: off
  uint64_t seed = 0;
  std::string precision = "f32";  ///< of matrix products
  std::string from = {};               ///< folder of a model to start from; empty: none
  MemoryOptions memory_use = {};
  EpochEndOptions epoch_end = {};
};

/// What differs from program to program.
struct TrainingTraits {
  std::vector<std::string> optimizers;  ///< that suit the models
  bool noam = false;                    ///< the models have a width, which that schedule asks for
  bool blocks = true;                   ///< the models have blocks, which can be recomputed
  bool decay = true;                    ///< --beta2, --weight-decay and --decay-all
};

/// The rows of all but epochs: the program adds that itself, as it says what an epoch is, and
/// --resume --epochs needs it.
void add_training_settings(Settings& settings, TrainingOptions& options,
                           const TrainingTraits& traits);
/// The rows of MemoryOptions alone; with `blocks` the model has some, which can be recomputed.
void add_memory_settings(Settings& settings, MemoryOptions& options, bool blocks = true);
/// ", optimizer state of 8 bits" and so on; empty where they are the defaults.
std::string describe_memory(const MemoryOptions& options);

/// Error where they do not go together.
void check_training_options(const TrainingOptions& options);
/// Error where an epoch is to be judged by held-out data and nothing is `held_out`. `remedy` is the
/// flag that holds data out.
void check_held_out(const TrainingOptions& options, bool held_out, const char* remedy);

/// Clipping, averages and when weights are stepped; without the schedule.
train::LearnerOptions learner_options(const TrainingOptions& options);
/// The same with the schedule of a run of so many steps. `width` is noam's; with `largest` the
/// metric that judges epochs is to become large.
train::LearnerOptions learner_options(const TrainingOptions& options, int64_t steps,
                                      int64_t width = 0, bool largest = false);
train::ScheduleOptions schedule_options(const TrainingOptions& options, int64_t width = 0);

/// The optimizer that the options name. Without decay_all it decays only parameters of two axes and
/// more (optim::decay_groups).
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainingOptions& options,
                                                 const NamedTensors& parameters);

/// Epochs, batches a step, patience and kept epochs.
void set_loop_options(train::LoopOptions& loop, const TrainingOptions& options);

}  // namespace tern::apps
