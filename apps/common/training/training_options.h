// The recipe that all training programs share: optimizer, learning rate, gradient, memory, ends of
// epochs, ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/apps/common/command_line/settings.h"
#include "tern/optim/optimizer.h"
#include "tern/train/learner.h"
#include "tern/train/schedule.h"

namespace tern::training {
struct LoopOptions;
}

namespace tern::apps {

/// How a training saves memory.
struct MemoryOptions {
  bool step_in_backward = false;   ///< training::LearnerOptions
  std::string recompute = "none";  ///< nn::Recompute of the model's blocks
  int64_t optimizer_bits = 32;     ///< 32 or 8: optim::AdamOptions::state_bits

  bool operator==(const MemoryOptions&) const = default;
};

/// Settings of the optimizer that few recipes change.
struct OptimizerDetails {
  double momentum = 0.9;    ///< of sgd
  bool nesterov = false;    ///< whether sgd has Nesterov momentum
  double norm_bias_lr = 1;  ///< optim::scale_norm_biases
  int64_t lookahead = 0;    ///< optim::LookaheadOptions::every; 0: off

  bool operator==(const OptimizerDetails&) const = default;
};

/// What happens at the end of an epoch.
struct EpochEndOptions {
  int64_t patience = 0;          ///< training::LoopOptions
  int64_t keep = 0;              ///< training::LoopOptions
  int64_t plateau_patience = 2;  ///< training::ScheduleOptions
  double plateau_factor = 0.5;   ///< training::ScheduleOptions

  bool operator==(const EpochEndOptions&) const = default;
};

/// Length and evaluations counted in steps; 0: in epochs.
struct LengthOptions {
  int64_t steps = 0;       ///< length of the whole run
  int64_t eval_steps = 0;  ///< from one evaluation to the next

  bool operator==(const LengthOptions&) const = default;
};

/// How the ranks of mpirun train together: training::Parallel.
struct ParallelOptions {
  int64_t blocks = 0;  ///< parts of a batch; 0: one process, which does not split batches
  bool shard_optimizer = false;
  int64_t local_steps = 0;
  double rank_timeout = 120;  ///< seconds, dist::WorldOptions; a resumed run may change it
  int64_t ranks = 1;          ///< processes that train now; not a setting
  /// Ranks that share the optimizer's states.
  int64_t optimizer_ranks() const { return shard_optimizer ? ranks : 1; }
};

struct TrainingOptions {
  int64_t epochs = 10;
  std::string optimizer = "adamw";  ///< one of training::optimizer_names()
  double lr = 1e-3;
  std::string schedule = "cosine";  ///< one of training::schedule_names()
  int64_t warmup = 0;               ///< steps
  double beta2 = 0;                 ///< of Adam and its variants; 0: the optimizer's default
  double weight_decay = 0;
  bool decay_all = false;  ///< weight decay also on biases and norms, not only on matrices
  int64_t accumulate = 1;  ///< batches per step
  double clip = 1;         ///< largest norm of the gradient; 0: off
  double ema = 0;          ///< decay of averaged weights; 0: off
  uint64_t seed = 0;
  std::string precision = "f32";  ///< of matrix products
  std::string matmul = "tiles";   ///< backend of f32 products: tiles or blas
  std::string from = {};          ///< folder of a model to start from; empty: none
  OptimizerDetails details = {};
  MemoryOptions memory_use = {};
  EpochEndOptions epoch_end = {};
  LengthOptions length = {};
  ParallelOptions parallel = {};
};

/// Differences between programs.
struct TrainingTraits {
  std::vector<std::string> optimizers;  ///< optimizers that suit the models
  bool noam = false;                    ///< the models have a width, which noam needs
  bool blocks = true;                   ///< the models have blocks that can be recomputed
  bool details = false;                 ///< the flags of OptimizerDetails
  std::string muon_lr = {};  ///< help: the rate of muon unless --lr is given; empty: as for others
};

/// Lists all settings except the epochs. The program adds those itself, before these, because it
/// knows what an epoch is.
void add_training_settings(Settings& settings, TrainingOptions& options,
                           const TrainingTraits& traits);
/// Marks settings that have no effect when --steps (`lengths`) or --eval-steps (`evaluations`) is
/// given.
void counted_otherwise(Settings& settings, const LengthOptions& length,
                       const std::vector<const char*>& lengths,
                       const std::vector<const char*>& evaluations);
/// Lists only the settings of MemoryOptions; `blocks`: the model has blocks that can be recomputed.
void add_memory_settings(Settings& settings, MemoryOptions& options, bool blocks = true);
/// ", optimizer state of 8 bits" and so on; empty for the defaults.
std::string describe_memory(const MemoryOptions& options);

/// Error if settings contradict each other.
void check_training_options(const TrainingOptions& options);
/// Error if early stopping or the schedule needs held-out data, but `held_out` is false. `remedy`
/// is the flag that holds data out.
void check_held_out(const TrainingOptions& options, bool held_out, const char* remedy);

/// Clipping, averages and step_in_backward, without the schedule.
training::LearnerOptions learner_options(const TrainingOptions& options);
/// The same with the schedule of a run of `steps` steps. `width` is for noam. `largest`: a larger
/// value of the metric that judges epochs is better.
training::LearnerOptions learner_options(const TrainingOptions& options, int64_t steps,
                                         int64_t width = 0, bool largest = false);
training::ScheduleOptions schedule_options(const TrainingOptions& options, int64_t width = 0);

/// Without decay_all, weights decay only in parameters with two or more axes (optim::decay_groups).
optim::ParameterGroups parameter_groups(const TrainingOptions& options,
                                        const NamedTensors& parameters);
/// The optimizer that the options name, of these groups.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainingOptions& options,
                                                 const NamedTensors& parameters);

/// "3 epochs"; "5000 steps" where the length is counted in steps.
std::string describe_length(const TrainingOptions& options);
/// The steps of a run: options.length.steps, or `steps` if the length is counted in epochs.
int64_t run_steps(const TrainingOptions& options, int64_t steps);
/// Sets length, evaluations, batches per step, patience and kept epochs.
void set_loop_options(training::LoopOptions& loop, const TrainingOptions& options);

}  // namespace tern::apps
