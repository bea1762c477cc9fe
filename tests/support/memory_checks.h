// Compares what a training step was said to take with what the allocator saw.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/base/allocator.h"
#include "tern/core/tools/step_cost.h"

namespace tern::test {

/// `said` is the peak that summary() gave; `train` makes a model and takes two real steps or more.
/// Within a share of the peak: what threads take inside of a kernel is not in it.
inline void check_peak(int64_t said, const std::function<void()>& train, double share = 0.1) {
  trim_memory();  // from a full cache blocks come up to twice as large
  const int64_t before = memory_stats().live;
  reset_peak_memory();
  train();
  const int64_t seen = memory_stats().peak - before;
  CAPTURE(said);
  CAPTURE(seen);
  CHECK(std::abs(static_cast<double>(said - seen)) <= share * static_cast<double>(seen));
}

}  // namespace tern::test
