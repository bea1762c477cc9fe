// Compares the predicted memory of a training step with the allocator's peak.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/base/allocator.h"
#include "tern/core/tools/step_cost.h"

namespace tern::test {

/// `said` is the peak from summary(); `train` makes a model and takes at least two real steps. The
/// peaks may differ by `share`: memory of threads inside a kernel is not predicted.
inline void check_peak(int64_t said, const std::function<void()>& train, double share = 0.1) {
  trim_memory();  // blocks from a full cache may be twice as large as needed
  const int64_t before = memory_stats().live;
  reset_peak_memory();
  train();
  const int64_t seen = memory_stats().peak - before;
  CAPTURE(said);
  CAPTURE(seen);
  CHECK(std::abs(static_cast<double>(said - seen)) <= share * static_cast<double>(seen));
}

}  // namespace tern::test
