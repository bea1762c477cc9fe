// Convolutions, as torch.nn.Conv1d and torch.nn.Conv2d.
#pragma once

#include <array>

#include "tern/core/ops/conv.h"
#include "tern/nn/linear.h"

namespace tern::nn {

/// x (B, in, L) -> (B, out, L'). Weight (out, in/groups, kernel) and bias (out) start in
/// U(±1/sqrt(in/groups * kernel)).
struct Conv1d {
  Parameter weight, bias;
  Conv1dOptions options;

  Conv1d(int64_t in, int64_t out, int64_t kernel, Rng& rng, const Conv1dOptions& options = {},
         Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return conv1d(x, weight, bias, options); }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, H, W) -> (B, out, H', W'). Weight (out, in/groups, kernel) and bias (out) start in
/// U(±1/sqrt(in/groups * kernel[0] * kernel[1])).
struct Conv2d {
  Parameter weight, bias;
  Conv2dOptions options;

  Conv2d(int64_t in, int64_t out, Size2 kernel, Rng& rng, const Conv2dOptions& options = {},
         Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, options); }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

}  // namespace tern::nn
