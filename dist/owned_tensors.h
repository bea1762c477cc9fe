// Sends tensors from the rank that owns them to all ranks or to rank 0, and averages tensors over
// all ranks.
//
// Every rank makes the same call with contiguous tensors of the same types and shapes in the same
// order. The small tensors of an owner are sent together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"
#include "tern/dist/world.h"

namespace tern::dist {

/// A tensor, and the rank that has its right elements.
struct OwnedTensor {
  int64_t owner;
  Tensor tensor;
};

/// Writes the owner's elements into each tensor, on all ranks. `what` is for errors: "the weights".
void send_to_all(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors);
/// The same on rank 0 only. Other ranks may leave out the tensors that they do not own.
void send_to_first(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors);

/// Writes sum_r weights[r] x_r / sum_r weights[r] into each tensor x of floating type, on all
/// ranks. The sum follows the order of the ranks, so all of them get the same bits. Each rank sends
/// the elements of a tensor about twice.
/// REQUIRES: one weight per rank, the same weights on all ranks, and a positive sum.
void average(World& world, const std::string& what, const std::vector<Tensor>& tensors,
             const std::vector<double>& weights);

}  // namespace tern::dist
