// --dry-run of the training programs: what the model is, what a step takes, whether it fits this
// machine and how long it takes; and with --gbit what the training would take on 1 to 1,024
// machines. Steps may be timed in memory; nothing on disk changes. The model of the network is
// dist/step_plan.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tern/apps/common/launch.h"
#include "tern/apps/common/machine.h"
#include "tern/apps/common/settings.h"
#include "tern/train/loop.h"
#include "tern/train/summary.h"

namespace tern::apps {

struct DryRunOptions {
  Facts facts = {};             ///< said first: model, data, recipe
  int64_t waiting_batches = 0;  ///< that a loader keeps ready beside the one in use
};

/// The most memory that the process takes, in bytes: the step, and what the allocator keeps for
/// reuse.
int64_t needed_bytes(const Summary& summary, const DryRunOptions& options);

/// "needs up to 402 MB; 1,903 MB are free on this machine: it fits". The second: whether it does.
std::pair<std::string, bool> verdict(int64_t needed, const std::optional<FreeMemory>& free);

/// A copy of a batch's ids; in a ShapeOnlyScope one without memory.
Tensor copy_of(const Tensor& ids);

/// Prints facts, summary and verdict. Gives the program's exit code: 0, or 1 if it does not fit.
int report_dry_run(const Summary& summary, const DryRunOptions& options = {});

/// How long a step takes on this machine.
struct StepTime {
  double seconds = 0;
  double gflops = 0;   ///< billions of operations in it
  bool timed = false;  ///< else the least that its operations can take
};
/// Times some steps of the loop that `make_loop` gives, in memory. One that would take long is not
/// taken, but estimated from its operations and the speed of this machine's matrix products.
StepTime step_time(const Summary& summary, const std::function<training::Loop&()>& make_loop);
/// "about 45 min for 1,300 steps of 2.1 s, without evaluations".
std::string run_time_text(const StepTime& time, int64_t steps);

/// The flags of the network.
struct NetworkFlags {
  double gbit = 0;         ///< per second, of each machine; 0: no table
  double latency_us = 50;  ///< from one machine to another
  double step_ms = 0;      ///< of a step on one machine; 0: measured
};
void add_network_settings(Settings& settings, NetworkFlags& flags, bool dry_run);

/// A training on one machine.
struct OneMachine {
  int64_t blocks = 8;                  ///< of a batch
  bool shard_optimizer = false;        ///< on several machines
  double step = 0;                     ///< seconds of a step in blocks
  double memory_bytes_per_second = 0;  ///< copied
};
/// `summary`: of a step on the whole batch, with a whole optimizer.
std::string scaling_table(const Summary& summary, const OneMachine& machine,
                          const NetworkFlags& network);

/// Takes some steps of a loop, which is of no use afterwards: the seconds of one. It takes at least
/// two, and no more when they have taken `most_seconds` together.
double measure_step(training::Loop& loop, double most_seconds = 20);
/// Copies some memory: bytes per second.
double measure_memory();

}  // namespace tern::apps
