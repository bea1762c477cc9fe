// One pool of threads for all of tern. Its threads live as long as the process. A waiting thread
// spins briefly, then sleeps. Results never depend on the number of threads: either every element
// is computed on its own (parallel_for), or the caller fixes the partition and combines partial
// results in a fixed order (parallel_blocks). In a ShapeOnlyScope (shape_only.h) no loop runs.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "tern/core/base/shape_only.h"

namespace tern {

/// Sets the number of threads for the whole process; 1 <= n <= 1024.
void set_num_threads(int n);

/// The number of threads. Default: OMP_NUM_THREADS, else one thread per core that this process may
/// use according to its affinity mask (taskset, cpusets, mpirun) and the CPU quota of its control
/// groups (containers, Slurm). Hyperthreads of a core count once: a virtual machine whose two
/// processors are hyperthreads of one core gets one thread.
int num_threads();

/// Tells tern that several processes of one job share these cores: divides the default number of
/// threads among them. Changes nothing if OMP_NUM_THREADS or set_num_threads() chose the number.
void share_cores(int processes);

/// Whether parallel_for would run serially: inside a parallel loop or a SerialScope, and in a child
/// process forked after the first parallel loop (the pool stayed in the parent).
bool in_serial();

/// While in scope, parallel loops of this thread run serially. For threads of your own (data
/// workers), which would otherwise compete with the pool for cores.
class SerialScope {
 public:
  [[nodiscard]] SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;
  SerialScope& operator=(const SerialScope&) = delete;
};

namespace detail {
/// While in scope, num_threads() is n. If it replaces the default, the default applies again
/// afterwards, and share_cores() divides it.
class ThreadCountScope {
 public:
  [[nodiscard]] explicit ThreadCountScope(int n);
  ~ThreadCountScope();
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;

 private:
  int before_;
};

using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
void parallel_for(int64_t n, int64_t grain, void* context, RangeFn fn);
void parallel_blocks(int64_t nblocks, void* context, RangeFn fn);
}  // namespace detail

/// Calls fn(begin, end) on ranges that cover [0, n), in parallel if n > grain. Ranges must not wait
/// for each other: a thread may run several in turn. There is one range per `grain` elements, and
/// at most one per thread. More than four threads also share loops of more than half a grain, in
/// ranges of an eighth of a grain or more. Choose `grain` so that a range takes about 10
/// microseconds. If grain >= 64, ranges start at multiples of 64. Then an element's place in the
/// vector body or in the tail of a loop does not depend on the number of threads. Rethrows the
/// first exception of fn after all ranges have ended.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& fn) {
  using Fn = std::remove_reference_t<F>;
  auto call = [](void* f, int64_t b, int64_t e) { (*static_cast<Fn*>(f))(b, e); };
  detail::parallel_for(n, grain, const_cast<void*>(static_cast<const void*>(std::addressof(fn))),
                       call);
}

/// Calls fn(block) for every block in [0, nblocks), in parallel and in any order. For partitions
/// that must not depend on the number of threads: choose blocks by the size of the data, write
/// partial results by block, and combine them in order. Exceptions as in parallel_for.
template <class F>
void parallel_blocks(int64_t nblocks, F&& fn) {
  using Fn = std::remove_reference_t<F>;
  auto call = [](void* f, int64_t b, int64_t e) {
    for (; b < e; ++b) (*static_cast<Fn*>(f))(b);
  };
  detail::parallel_blocks(nblocks, const_cast<void*>(static_cast<const void*>(std::addressof(fn))),
                          call);
}

/// Below this many multiplications a parallel region costs more than it saves.
constexpr int64_t kParallelWork = int64_t{1} << 19;

/// As parallel_blocks if `work` justifies a parallel region, else runs the blocks in order. `work`
/// counts multiplications (an element read or written counts as about ten).
template <class F>
void parallel_blocks(int64_t nblocks, int64_t work, F&& fn) {
  if (work >= kParallelWork) {
    parallel_blocks(nblocks, std::forward<F>(fn));
  } else if (!detail::reserving) {
    for (int64_t b = 0; b < nblocks; ++b) fn(b);
  }
}

}  // namespace tern
