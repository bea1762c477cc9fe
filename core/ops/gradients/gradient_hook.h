// A function that sees a gradient in the backward pass and may change it: PyTorch's
// Tensor.register_hook as an op.
//
//   x = on_gradient(x, [](const Tensor& dy) { return clamp(dy, -1., 1.); });    // an activation
//   Tensor y = on_gradient(x, [](const Tensor& dy) { return -dy; });  // reversed (Ganin 2015)
//   nn::WeightsInstead hooked(model, {{name, on_gradient(weight, halve)}});     // a weight
#pragma once

#include <functional>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Returns a view of x. In the backward pass fn gets the complete gradient of that view, once, and
/// x gets what fn returns; an undefined tensor leaves the gradient unchanged. A hook on x in
/// PyTorch sees all uses of x; fn sees only uses of the returned view.
///
/// The ops of fn are recorded only with create_graph. Its exceptions propagate out of backward().
/// It runs in each pass over the graph, and never if nothing is recorded. It may keep the gradient.
/// Writing to the gradient is an Error, as is returning another shape or type.
Tensor on_gradient(const Tensor& x, std::function<Tensor(const Tensor& gradient)> fn);

}  // namespace tern
