// A segment of the tape: what was recorded since some position, and nothing behind it. For
// recomputation, and for gradients by composed definitions.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/tape/autograd.h"

namespace tern::detail {

/// A number that nodes made from here on exceed, and those made before do not.
uint64_t tape_position();

/// What `output` was made from that is not newer than `since`: leaves, and for every result of an
/// op a stand-in with its node (that is all a gradient needs) but no elements.
std::vector<Tensor> made_from(const Tensor& output, uint64_t since);

/// backward() that ends at nodes not newer than `since`. Leaves gather as ever; what `ends` gather,
/// results of ops not newer than `since`, is found in their nodes' `pending`, added to what was
/// there before.
void backward_since(uint64_t since, const Tensor& output, Tensor gradient,
                    const std::vector<Tensor>& ends);

/// The elements of `t` as a result of which nothing is known but that gradients end there.
Tensor as_end(const Tensor& t);

/// grad() that ends at nodes not newer than `since`: what is behind them belongs to others.
std::vector<Tensor> grad_since(uint64_t since, const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& inputs, const GradOptions& options);

}  // namespace tern::detail
