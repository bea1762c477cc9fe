// Second derivatives of fused ops: where a backward pass is itself recorded, the gradient is that
// of the same function put together from public ops.
#pragma once

#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// The gradients at `inputs` of fn, recorded so that they can be differentiated again. fn gets the
/// inputs behind a view of their own, so that one input's history may lead to another.
template <class Fn>
Gradients composed_gradients(const Fn& fn, const std::vector<Tensor>& inputs, const Tensor& dy) {
  std::vector<Tensor> args, wanted;
  for (const Tensor& t : inputs) {
    const bool differentiable = t.defined() && t.requires_grad();
    args.push_back(differentiable ? expand(t, t.shape()) : t);
    if (differentiable) wanted.push_back(args.back());
  }
  std::vector<Tensor> found =
      grad({fn(args)}, wanted, {.create_graph = true, .allow_unused = true, .gradients = {dy}});
  Gradients out;
  size_t next = 0;
  for (const Tensor& t : inputs)
    out.push_back(t.defined() && t.requires_grad() ? found[next++] : Tensor());
  return out;
}

}  // namespace tern::detail

namespace tern {
using detail::composed_gradients;
}  // namespace tern
