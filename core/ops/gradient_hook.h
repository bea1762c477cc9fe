// A function that sees a gradient on its way back, and may change it: PyTorch's
// Tensor.register_hook as an op.
//
//   x = on_gradient(x, [](const Tensor& dy) { return clamp(dy, -1., 1.); });    // an activation
//   Tensor y = on_gradient(x, [](const Tensor& dy) { return -dy; });  // reversed (Ganin 2015)
//   nn::WeightsInstead hooked(model, {{name, on_gradient(weight, halve)}});     // a weight
#pragma once

#include <functional>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// x (a view of it). In the backward pass fn is given the gradient of the result, once and whole,
/// and x gets what fn returns; an undefined tensor leaves the gradient as it is. Unlike a hook
/// that is registered on x, it sees only gradients of uses of the result, not of x itself.
///
/// With create_graph what fn computes is recorded, otherwise not. What it throws leaves backward.
/// It runs again in each pass over the graph, not where nothing is recorded. It may keep the
/// gradient, but writing to it is an Error, and so is another shape or type.
Tensor on_gradient(const Tensor& x, std::function<Tensor(const Tensor& gradient)> fn);

}  // namespace tern
