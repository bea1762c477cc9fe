// --dry-run of the training programs: prints the model, the memory of a step, whether it fits this
// machine, and how long the training takes. With --gbit it predicts the time on 1 to 1,024
// machines; dist/step_plan.h models the network. Steps may be timed in memory; nothing on disk
// changes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tern/apps/common/command_line/settings.h"
#include "tern/apps/common/process/machine.h"
#include "tern/apps/common/training/launch.h"
#include "tern/train/loop.h"
#include "tern/train/summary.h"

namespace tern::apps {

/// A training on one machine.
struct OneMachine {
  int64_t blocks = 8;                  ///< parts that a batch is divided into
  bool shard_optimizer = false;        ///< several machines share the optimizer's states
  double step = 0;                     ///< seconds of a step that computes its blocks in turn
  double memory_bytes_per_second = 0;  ///< speed of copying memory
};
/// A step of blocks that ranks share.
struct SharedStep {
  OneMachine machine;
  int64_t ranks = 1;
};

/// The peak memory of a process in bytes: the step, so many batches besides the one in use, and
/// what the allocator keeps for reuse. `shared`: a pass holds one block, and sums of gradients.
int64_t needed_bytes(const Summary& summary, int64_t more_batches,
                     const std::optional<SharedStep>& shared = {});

/// "needs up to 402 MB; 1,903 MB are free on this machine: it fits", and whether it fits.
std::pair<std::string, bool> verdict(int64_t needed, const std::optional<FreeMemory>& free);

/// A copy of a batch's ids; in a ShapeOnlyScope the copy has no memory.
Tensor copy_of(const Tensor& ids);

/// Prints facts, summary and verdict. Returns the program's exit code: 0, or 1 if it does not fit.
int report_dry_run(const Summary& summary, const Facts& facts, int64_t more_batches,
                   const std::optional<SharedStep>& shared = {});

/// How long a step takes on this machine.
struct StepTime {
  double seconds = 0;
  double gflops = 0;   ///< billions of operations in it
  bool timed = false;  ///< false: a lower bound from the number of operations
};
/// Times some steps of the loop that `make_loop` gives, in memory. A step that would take long is
/// not run: its time is estimated from its operations and the speed of matrix products.
StepTime step_time(const Summary& summary, const std::function<training::Loop&()>& make_loop);
/// "about 45 min for 1,300 steps of 2.1 s, without evaluations".
std::string run_time_text(const StepTime& time, int64_t steps);

/// Flags that describe the network.
struct NetworkFlags {
  double gbit = 0;         ///< per second, of each machine; 0: no table
  double latency_us = 50;  ///< from one machine to another
  double step_ms = 0;      ///< time of a step on one machine; 0: measured
};
void add_network_settings(Settings& settings, NetworkFlags& flags, bool dry_run);

/// `summary` describes a step on the whole batch with the whole optimizer.
std::string scaling_table(const Summary& summary, const OneMachine& machine,
                          const NetworkFlags& network);

/// Returns the seconds per step. Runs at least two steps, and stops once they have taken
/// `most_seconds` together. The loop must not be used afterwards.
double measure_step(training::Loop& loop, double most_seconds = 20);
/// Measures the speed of copying memory, in bytes per second.
double measure_memory();

}  // namespace tern::apps
