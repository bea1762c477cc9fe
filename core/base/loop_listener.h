// Hears of a thread's parallel loops (threads.h) and runs them in place of the pool, for tools that
// time the parts of a loop one by one. Without a listener a loop reads one variable more.
// Inside of core only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern::detail {

/// A parallel loop. Part p covers [p * step, min(n, (p + 1) * step)).
struct Loop {
  int64_t n, step;
  /// Whether thread p takes part p (parallel_for); else a thread takes the next part that nobody
  /// has begun (parallel_blocks).
  bool own_parts;
  void (*fn)(void* context, int64_t begin, int64_t end);
  void* context;

  int64_t parts() const { return (n + step - 1) / step; }
  void run(int64_t part) const { fn(context, part * step, std::min(n, (part + 1) * step)); }
};

class LoopListener {
 public:
  virtual ~LoopListener() = default;
  /// Runs every part once, on this thread. A loop that would not have been parallel has one part,
  /// and loops inside of it are heard of too; those inside of several parts run serially, unheard.
  virtual void run(const Loop& loop) = 0;
};

/// Hears of this thread's loops; null: nobody does.
inline thread_local constinit LoopListener* loop_listener = nullptr;

}  // namespace tern::detail
