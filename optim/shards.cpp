#include "tern/optim/shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tern/core/base/error.h"

namespace tern::optim {

std::vector<int64_t> shard_owners(const Optimizer& optimizer, int64_t ranks) {
  check(ranks >= 1, "shard_owners: there are {} ranks", ranks);
  using Load = std::pair<int64_t, int64_t>;  // bytes of states, elements of parameters
  const NamedTensors parameters = optimizer.parameters();
  std::vector<Load> sizes;
  for (size_t i = 0; i < parameters.size(); ++i)
    sizes.emplace_back(optimizer.state_bytes(i), parameters[i].second.numel());
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<Load> loads(static_cast<size_t>(ranks));
  std::vector<int64_t> owners(sizes.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    owners[i] = least - loads.begin();
    least->first += sizes[i].first;
    least->second += sizes[i].second;
  }
  return owners;
}

void keep_shard(Optimizer& optimizer, int64_t rank, int64_t ranks) {
  check(rank >= 0 && rank < ranks, "keep_shard: there is no rank {} of {}", rank, ranks);
  std::vector<bool> own;
  for (const int64_t owner : shard_owners(optimizer, ranks)) own.push_back(owner == rank);
  optimizer.keep_shard(own);
}

void keep_largest_shard(Optimizer& optimizer, int64_t ranks) {
  const std::vector<int64_t> owners = shard_owners(optimizer, ranks);
  std::vector<int64_t> bytes(static_cast<size_t>(ranks));
  for (size_t i = 0; i < owners.size(); ++i)
    bytes[static_cast<size_t>(owners[i])] += optimizer.state_bytes(i);
  keep_shard(optimizer, std::max_element(bytes.begin(), bytes.end()) - bytes.begin(), ranks);
}

}  // namespace tern::optim
