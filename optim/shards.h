// Splits an optimizer's states over several processes (ZeRO stage 1, Rajbhandari et al. 2020,
// https://arxiv.org/abs/1910.02054): each rank keeps the states of some parameters and updates
// only these. A parameter is never split, however large.
//
// This file decides which rank owns which parameter; training::Learner::shard_optimizer() uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// The rank that keeps the state of each parameter, by its place in Optimizer::parameters().
/// It balances the bytes of states, then the elements of parameters: the largest parameter goes
/// first, to the rank that has the least. It depends only on the optimizer and the number of ranks.
std::vector<int64_t> shard_owners(const Optimizer& optimizer, int64_t ranks);

/// The load that a parameter adds to a rank.
struct ShardItem {
  int64_t state_bytes = 0, elements = 0;
  auto operator<=>(const ShardItem&) const = default;
};
std::vector<int64_t> shard_owners(const std::vector<ShardItem>& parameters, int64_t ranks);
/// The bytes of states of the rank that has the most.
int64_t largest_shard(const std::vector<ShardItem>& parameters, int64_t ranks);

/// Makes the optimizer keep only the states of one rank (Optimizer::keep_shard).
void keep_shard(Optimizer& optimizer, int64_t rank, int64_t ranks);
/// The same for the rank with the most bytes of states: every machine must have room for these.
void keep_largest_shard(Optimizer& optimizer, int64_t ranks);

}  // namespace tern::optim
