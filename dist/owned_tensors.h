// Tensors that go from rank to rank: from the one that has the right elements to all others or to
// rank 0, and means over all ranks.
//
// Every rank makes the same call with tensors of the same types and shapes in the same order; they
// are contiguous. Small tensors of a rank travel together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"
#include "tern/dist/world.h"

namespace tern::dist {

/// A tensor, and the rank whose elements count.
struct OwnedTensor {
  int64_t owner;
  Tensor tensor;
};

/// Writes the owner's elements into each tensor, on all ranks. `what` is for errors: "the weights".
void send_to_all(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors);
/// The same on rank 0 alone. A rank other than 0 may leave out what it does not own.
void send_to_first(World& world, const std::string& what, const std::vector<OwnedTensor>& tensors);

/// Writes sum_r weights[r] x_r / sum_r weights[r] into each tensor x of floating type, on all
/// ranks, added in the order of the ranks: the bits are the same on all of them. The elements of
/// each tensor are sent about twice.
/// REQUIRES: the same weights on all ranks, one each, and a positive sum.
void average(World& world, const std::string& what, const std::vector<Tensor>& tensors,
             const std::vector<double>& weights);

}  // namespace tern::dist
