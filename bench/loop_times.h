// Times a program's parallel loops part by part, cut as so many threads would cut them: what a
// prediction for machines with more cores needs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tern::bench {

/// A parallel loop, and the code between it and the loop before it. Times are in seconds.
struct TimedLoop {
  bool own_parts;             ///< see makespan() in core/tools/schedule.h
  std::vector<double> parts;  ///< of each part; empty: the code after the last loop
  double before = 0;          ///< of the serial code before the loop, loops of one part included
  /// "linear backward: blocks.*.mlp" in which the loop, and most of the serial code, runs.
  std::string op = {}, op_before = {};

  double work() const;  ///< of all parts
};

struct TimedStep {
  std::vector<TimedLoop> loops;
  double outside() const;  ///< of loops of several parts
  double seconds() const;  ///< all of it, on one thread
};

/// Runs `step` with so many threads set, but one part of a loop at a time: this thread runs serial
/// code and the parts of thread 0, and another one, on a machine with two cores or more, all other
/// parts. So this core's caches keep what thread 0 reads, as they would with many cores. The first
/// step fills the caches, and the last one learns which op each loop belongs to. Takes for every
/// part the shortest time of `reps` more steps. Error if two steps run different loops. With one
/// thread, loops have one part.
TimedStep time_loops(const std::function<void()>& step, int threads, int reps);

/// Bytes of the tensors and the working memory that a step takes.
int64_t allocated_by(const std::function<void()>& step);

/// What the pool adds to a loop whose parts take 10 microseconds each: seconds, on this machine,
/// with so many threads. Not more than it has cores.
double measure_loop_cost(int threads);

}  // namespace tern::bench
