// What a training would take on 1 to 1,024 machines: the table that --dry-run prints under --gbit.
// The model of the network is dist/step_plan.h; the time of a step is measured on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "tern/apps/common/settings.h"
#include "tern/train/summary.h"

namespace tern::train {
class Loop;
}

namespace tern::apps {

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

/// Takes some steps of a loop, which is of no use afterwards: the seconds of one.
double measure_step(train::Loop& loop);
/// Copies some memory: bytes per second.
double measure_memory();

}  // namespace tern::apps
