// Normalisation layers, as torch.nn's. Weights start at 1, biases at 0.
#pragma once

#include <initializer_list>

#include "tern/core/ops/ops.h"
#include "tern/core/ops/residual.h"
#include "tern/nn/dropout.h"
#include "tern/nn/linear.h"

namespace tern::nn {

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;     ///< false: neither weight nor bias
  Bias bias = Bias::yes;  ///< no: weight alone
};

/// Over the last axes, which have the sizes `shape`: (x - mean) / sqrt(var + eps) * weight + bias.
struct LayerNorm {
  Parameter weight, bias;
  Shape shape;
  double eps;

  explicit LayerNorm(const Shape& shape, const NormOptions& options = {});
  /// For braces, LayerNorm({64}), which would fit a copy of LayerNorm(64) as well.
  explicit LayerNorm(std::initializer_list<int64_t> shape, const NormOptions& options = {})
      : LayerNorm(Shape(shape), options) {}
  Tensor operator()(const Tensor& x) const { return layer_norm(x, shape, weight, bias, eps); }
  /// The same of residual + dropout(x), in one pass.
  Tensor of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  /// With the sum.
  SumAndNorm with_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang & Sennrich 2019). The default eps
/// is PyTorch's: the distance from 1 to the next f32.
struct RmsNorm {
  Parameter weight;
  Shape shape;
  double eps;

  explicit RmsNorm(const Shape& shape, const NormOptions& options = {.eps = 0x1p-23});
  explicit RmsNorm(std::initializer_list<int64_t> shape,
                   const NormOptions& options = {.eps = 0x1p-23})
      : RmsNorm(Shape(shape), options) {}
  Tensor operator()(const Tensor& x) const { return rms_norm(x, shape, weight, eps); }
  /// As LayerNorm's.
  Tensor of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  SumAndNorm with_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};

/// x (N, C, ...): each of `groups` groups of channels is normalised for itself.
struct GroupNorm {
  Parameter weight, bias;
  int64_t groups;
  double eps;

  GroupNorm(int64_t groups, int64_t channels, const NormOptions& options = {});
  Tensor operator()(const Tensor& x) const { return group_norm(x, groups, weight, bias, eps); }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

struct BatchNormConfig {
  double eps = 1e-5;
  double momentum = 0.1;  ///< share of the new batch in the running statistics
  bool affine = true;
};

/// x (N, C, H, W) or any (N, C, ...). In training it normalises by the batch and updates the
/// running mean and (unbiased) variance; in evaluation it normalises by those.
struct BatchNorm2d {
  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
  double eps, momentum;
  bool training = true;

  explicit BatchNorm2d(int64_t channels, const BatchNormConfig& config = {});
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
    visit("running_mean", m.running_mean);
    visit("running_var", m.running_var);
    visit("num_batches_tracked", m.num_batches_tracked);
    visit("training", m.training);
  }
};

}  // namespace tern::nn
