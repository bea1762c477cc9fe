// Receives a thread's parallel loops (threads.h) and runs them in place of the pool, for tools that
// time the parts of a loop one by one. Without a listener, a loop only reads one more variable.
// Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/base/ceil_div.h"

namespace tern::detail {

/// A parallel loop. Part p covers [p * step, min(n, (p + 1) * step)).
struct Loop {
  int64_t n, step;
  /// Whether thread p takes part p (parallel_for). Else a thread takes the next part that no thread
  /// has begun (parallel_blocks).
  bool own_parts;
  void (*fn)(void* context, int64_t begin, int64_t end);
  void* context;

  int64_t parts() const { return ceil_div(n, step); }
  void run(int64_t part) const { fn(context, part * step, std::min(n, (part + 1) * step)); }
};

class LoopListener {
 public:
  virtual ~LoopListener() = default;
  /// Runs every part once, on this thread. A loop that would not have been parallel has one part,
  /// and the listener receives the loops inside it too. Loops inside one of several parts run
  /// serially, without the listener.
  virtual void run(const Loop& loop) = 0;
};

/// The listener of this thread, or null.
inline thread_local constinit LoopListener* loop_listener = nullptr;

}  // namespace tern::detail
