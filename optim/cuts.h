// Cuts many tensors into pieces of bounded size, so that one parallel region processes all of them.
// The cuts depend only on the sizes. Inside of optim only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tern::optim {

struct Cut {
  size_t item;
  int64_t begin, count;
};

/// Some 10 to 20 microseconds of work on one core.
constexpr int64_t kCutSize = 16384;

inline void cut(std::vector<Cut>& cuts, size_t item, int64_t numel, int64_t size = kCutSize) {
  for (int64_t at = 0; at < numel; at += size)
    cuts.push_back({item, at, std::min(size, numel - at)});
}

/// Estimated work, for parallel_blocks: 20 units per element, a few reads, writes and operations.
inline int64_t work(const std::vector<Cut>& cuts) {
  int64_t elements = 0;
  for (const Cut& cut : cuts) elements += cut.count;
  return 20 * elements;
}

}  // namespace tern::optim
