// One pool of threads for all of tern, which live as long as the process. A thread that waits spins
// for a moment and then sleeps. Results never depend on the number of threads:
// either every element is computed on its own (parallel_for), or the partition is fixed by the
// caller and partial results are combined in a fixed order (parallel_blocks). In a ShapeOnlyScope
// (shape_only.h) no loop runs.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "tern/core/base/shape_only.h"

namespace tern {

/// Sets how many threads tern uses, from now on and for the whole process; 1 <= n <= 1024.
void set_num_threads(int n);

/// Threads in use. At first: the cores that this process may run on, or OMP_NUM_THREADS if set.
int num_threads();

/// True where parallel_for would run serially: in the body of a parallel loop, in a SerialScope,
/// and in a child process forked after the first parallel loop (its pool stayed in the parent).
bool in_serial();

/// Makes parallel loops of this thread run serially while in scope. For threads of one's own
/// (data workers), which would otherwise compete with the pool for the cores.
class SerialScope {
 public:
  SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;
  SerialScope& operator=(const SerialScope&) = delete;
};

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
void parallel_for(int64_t n, int64_t grain, void* context, RangeFn fn);
void parallel_blocks(int64_t nblocks, void* context, RangeFn fn);
}  // namespace detail

/// Calls fn(begin, end) on ranges that together cover [0, n), in parallel if n > grain. Bodies must
/// not wait for each other: one thread may run several, one after the other. A range
/// has at least `grain` elements where possible: choose it so that it is worth some 10
/// microseconds. With grain >= 64 ranges start at multiples of 64, so that an element sits in the
/// vector body or in the tail of a loop no matter how many threads run.
/// The first exception thrown by fn is rethrown here after all ranges have ended.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& fn) {
  using Fn = std::remove_reference_t<F>;
  auto call = [](void* f, int64_t b, int64_t e) { (*static_cast<Fn*>(f))(b, e); };
  detail::parallel_for(n, grain, const_cast<void*>(static_cast<const void*>(std::addressof(fn))),
                       call);
}

/// Calls fn(block) for every block in [0, nblocks), in parallel and in any order. For partitions
/// that must not depend on the thread count: the caller fixes the blocks by the size of the data,
/// writes partial results by block, and combines them in order. Exceptions as in parallel_for.
template <class F>
void parallel_blocks(int64_t nblocks, F&& fn) {
  using Fn = std::remove_reference_t<F>;
  auto call = [](void* f, int64_t b, int64_t e) {
    for (; b < e; ++b) (*static_cast<Fn*>(f))(b);
  };
  detail::parallel_blocks(nblocks, const_cast<void*>(static_cast<const void*>(std::addressof(fn))),
                          call);
}

/// Below so many multiplications a parallel region costs more than it saves.
constexpr int64_t kParallelWork = int64_t{1} << 19;

/// parallel_blocks where the whole work, counted in multiplications (an element read or written
/// counts as some ten), is worth a parallel region; the blocks one after the other where not.
template <class F>
void parallel_blocks(int64_t nblocks, int64_t work, F&& fn) {
  if (work >= kParallelWork) {
    parallel_blocks(nblocks, std::forward<F>(fn));
  } else if (!detail::reserving) {
    for (int64_t b = 0; b < nblocks; ++b) fn(b);
  }
}

}  // namespace tern
