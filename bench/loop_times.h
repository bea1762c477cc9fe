// Times a program's parallel loops part by part, divided as a given number of threads would divide
// them. scaling.cpp predicts the time on machines with more cores from this.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tern::bench {

/// A parallel loop, and the code between it and the loop before it. Times are in seconds.
struct TimedLoop {
  bool own_parts;             ///< see makespan() in core/tools/schedule.h
  std::vector<double> parts;  ///< time of each part; empty: the code after the last loop
  double before = 0;          ///< serial code before the loop, including loops of one part
  /// The op of the loop, and of most of the serial code: "linear backward: blocks.*.mlp".
  std::string op = {}, op_before = {};

  double work() const;  ///< sum over all parts
};

struct TimedStep {
  std::vector<TimedLoop> loops;
  double outside() const;  ///< time outside loops of several parts
  double seconds() const;  ///< time of the whole step on one thread
};

/// Runs `step` with the number of threads set to `threads`, but only one part of a loop at once.
/// This thread runs serial code and the parts of thread 0; if the machine has two cores or more,
/// another thread runs all other parts. So this core's caches keep the data of thread 0, as with
/// many cores. The first step fills the caches, and the last one finds the op of each loop. The
/// time of a part is the shortest of `reps` steps in between. Error if two steps run different
/// loops. With one thread, loops have one part.
TimedStep time_loops(const std::function<void()>& step, int threads, int reps);

/// The bytes that a step allocates for tensors and working memory.
int64_t allocated_by(const std::function<void()>& step);

/// The overhead of the thread pool in seconds, for a loop whose parts take 10 microseconds each, on
/// this machine. REQUIRES: threads is at most its number of cores.
double measure_loop_cost(int threads);

}  // namespace tern::bench
