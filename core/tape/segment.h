// A segment of the tape: everything recorded since some position. For recomputation, and for
// gradients by composed definitions.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/tape/autograd.h"

namespace tern::detail {

/// The sequence of the newest node so far; later nodes have larger ones.
uint64_t tape_position();

/// What `output` was made from since position `since`: leaves, and stand-ins for results of ops. A
/// stand-in has the result's node, which is all that a gradient needs, but no elements.
[[nodiscard]] std::vector<Tensor> made_from(const Tensor& output, uint64_t since);

/// backward() that stops at nodes made at or before `since`. Leaves gather as usual. `ends` are
/// results made at or before `since`; their gradients are added to their nodes' `pending`.
void backward_since(uint64_t since, const Tensor& output, Tensor gradient,
                    const std::vector<Tensor>& ends);

/// The elements of `t` as a tensor where gradients end.
Tensor as_end(const Tensor& t);

/// grad() that stops at nodes made at or before `since`, which belong to others.
[[nodiscard]] std::vector<Tensor> grad_since(uint64_t since, const std::vector<Tensor>& outputs,
                                             const std::vector<Tensor>& inputs,
                                             const GradOptions& options);

}  // namespace tern::detail
