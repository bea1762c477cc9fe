// Splitting an optimizer's states over several processes (ZeRO stage 1, Rajbhandari et al. 2020,
// https://arxiv.org/abs/1910.02054): each rank keeps the states of some parameters and updates
// these. The split is at parameters, so a large one stays whole.
//
// training::Learner::shard_optimizer() does it in a training. Here is who has what.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// The rank that keeps the state of each parameter, by its place in Optimizer::parameters().
/// Balanced by bytes of states, then by elements of parameters: the largest parameter goes first,
/// to the rank that has the least. It depends on the optimizer and the number of ranks alone.
std::vector<int64_t> shard_owners(const Optimizer& optimizer, int64_t ranks);

/// What a parameter counts in that.
struct ShardItem {
  int64_t state_bytes = 0, elements = 0;
  auto operator<=>(const ShardItem&) const = default;
};
std::vector<int64_t> shard_owners(const std::vector<ShardItem>& parameters, int64_t ranks);
/// Bytes of states of the rank that has most.
int64_t largest_shard(const std::vector<ShardItem>& parameters, int64_t ranks);

/// Keeps the states of one rank alone (Optimizer::keep_shard).
void keep_shard(Optimizer& optimizer, int64_t rank, int64_t ranks);
/// The same for the rank with the most bytes of states: what every machine has room for.
void keep_largest_shard(Optimizer& optimizer, int64_t ranks);

}  // namespace tern::optim
