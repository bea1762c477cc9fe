// Assigns parameters to ranks: the largest first, each to the rank with the least load so far.
#include "tern/optim/shards.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tern/core/base/error.h"

namespace tern::optim {

namespace {

std::vector<ShardItem> items_of(const Optimizer& optimizer) {
  const NamedTensors parameters = optimizer.parameters();
  std::vector<ShardItem> items;
  for (size_t i = 0; i < parameters.size(); ++i)
    items.push_back({optimizer.state_bytes(i), parameters[i].second.numel()});
  return items;
}

// The bytes of states of each rank.
std::vector<int64_t> shard_bytes(const std::vector<ShardItem>& parameters, int64_t ranks) {
  const std::vector<int64_t> owners = shard_owners(parameters, ranks);
  std::vector<int64_t> bytes(static_cast<size_t>(ranks));
  for (size_t i = 0; i < owners.size(); ++i)
    bytes[static_cast<size_t>(owners[i])] += parameters[i].state_bytes;
  return bytes;
}

}  // namespace

std::vector<int64_t> shard_owners(const std::vector<ShardItem>& parameters, int64_t ranks) {
  check(ranks >= 1, "shard_owners: needs at least one rank, got {}", ranks);
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return parameters[a] > parameters[b]; });
  std::vector<ShardItem> loads(static_cast<size_t>(ranks));
  std::vector<int64_t> owners(parameters.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    owners[i] = least - loads.begin();
    least->state_bytes += parameters[i].state_bytes;
    least->elements += parameters[i].elements;
  }
  return owners;
}

std::vector<int64_t> shard_owners(const Optimizer& optimizer, int64_t ranks) {
  return shard_owners(items_of(optimizer), ranks);
}

int64_t largest_shard(const std::vector<ShardItem>& parameters, int64_t ranks) {
  return std::ranges::max(shard_bytes(parameters, ranks));
}

void keep_shard(Optimizer& optimizer, int64_t rank, int64_t ranks) {
  check(rank >= 0 && rank < ranks, "keep_shard: rank {} is outside [0, {})", rank, ranks);
  std::vector<bool> own;
  for (const int64_t owner : shard_owners(optimizer, ranks)) own.push_back(owner == rank);
  optimizer.keep_shard(own);
}

void keep_largest_shard(Optimizer& optimizer, int64_t ranks) {
  const std::vector<int64_t> bytes = shard_bytes(items_of(optimizer), ranks);
  keep_shard(optimizer, std::ranges::max_element(bytes) - bytes.begin(), ranks);
}

}  // namespace tern::optim
