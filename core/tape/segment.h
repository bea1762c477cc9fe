// Backward passes over a segment of the tape: the nodes recorded since some position. Used by
// recomputation and by gradients of composed definitions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tern/core/tape/autograd.h"

namespace tern::detail {

/// The sequence number of the newest node so far. Later nodes have larger numbers.
uint64_t tape_position();

/// The inputs of the segment from position `since` to `output`: leaves, and placeholders for
/// results of older ops. A placeholder has the result's node, which a gradient needs, but no
/// elements.
[[nodiscard]] std::vector<Tensor> made_from(const Tensor& output, uint64_t since);

/// backward() that stops at nodes made at or before `since`. Leaves gather gradients as usual.
/// `ends` are results made at or before `since`; their gradients go to their nodes' `pending`.
void backward_since(uint64_t since, const Tensor& output, Tensor gradient,
                    const std::vector<Tensor>& ends);

/// A tensor with the elements of `t` at which backward passes stop.
Tensor as_end(const Tensor& t);

/// grad() that stops at nodes made at or before `since`.
[[nodiscard]] std::vector<Tensor> grad_since(uint64_t since, const std::vector<Tensor>& outputs,
                                             const std::vector<Tensor>& inputs,
                                             const GradOptions& options);

/// f(), whose tensors depend on a state that it changes, such as a step of a power iteration. In a
/// checkpoint f runs only with the first run of fn; the second run gets the same tensors again.
[[nodiscard]] std::vector<Tensor> in_first_run(const std::function<std::vector<Tensor>()>& f);

}  // namespace tern::detail
