// Fixed blocks of work, in parallel where that pays.
#pragma once

#include "tern/core/threads.h"

namespace tern::kernels {

/// Elementary operations (multiplications, copied numbers) that are worth waking the threads.
constexpr int64_t kWorthThreads = 200000;

/// Calls fn(block) for every block in [0, blocks): by parallel_blocks if all of them together are
/// at least kWorthThreads operations, else one after the other.
template <class F>
void run_blocks(int64_t blocks, int64_t operations, F&& fn) {
  if (operations >= kWorthThreads) return parallel_blocks(blocks, fn);
  for (int64_t b = 0; b < blocks; ++b) fn(b);
}

}  // namespace tern::kernels
