// Normalisation layers, as torch.nn's. Weights start at 1, biases at 0.
#pragma once

#include <initializer_list>
#include <optional>

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
  explicit LayerNorm(std::initializer_list<Shape::Item> shape, const NormOptions& options = {})
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
  explicit RmsNorm(std::initializer_list<Shape::Item> shape,
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
  /// Share of the new batch in the running statistics; std::nullopt: 1 / the number of batches, so
  /// that they are the mean over all.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  ///< false: it normalises by the batch in evaluation too
};

/// What BatchNorm1d, 2d and 3d have in common. In training it normalises each channel by the batch
/// and updates the running mean and (unbiased) variance; in evaluation it normalises by those.
struct BatchNorm {
  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
  double eps;
  std::optional<double> momentum;
  bool training = true;

  explicit BatchNorm(int64_t channels, const BatchNormConfig& config = {});
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
    visit("running_mean", m.running_mean);
    visit("running_var", m.running_var);
    visit("num_batches_tracked", m.num_batches_tracked);
    visit("training", m.training);
  }

 protected:
  Tensor normalise(const Tensor& x) const;
};

/// x (N, C) or (N, C, L).
struct BatchNorm1d : BatchNorm {
  using BatchNorm::BatchNorm;
  Tensor operator()(const Tensor& x) const;
};

/// x (N, C, H, W) or any (N, C, ...).
struct BatchNorm2d : BatchNorm {
  using BatchNorm::BatchNorm;
  Tensor operator()(const Tensor& x) const { return normalise(x); }
};

/// x (N, C, D, H, W).
struct BatchNorm3d : BatchNorm {
  using BatchNorm::BatchNorm;
  Tensor operator()(const Tensor& x) const;
};

struct InstanceNormConfig {
  double eps = 1e-5;
  double momentum = 0.1;  ///< share of the new batch in the running statistics
  bool affine = false;
  bool track_running_stats = false;  ///< true: it normalises by them in evaluation
};

/// What InstanceNorm1d, 2d and 3d have in common: each channel of each sample is normalised by
/// itself (Ulyanov et al. 2016).
struct InstanceNorm {
  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
  int64_t channels;
  double eps, momentum;
  bool training = true;

  explicit InstanceNorm(int64_t channels, const InstanceNormConfig& config = {});
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
    visit("running_mean", m.running_mean);
    visit("running_var", m.running_var);
    visit("num_batches_tracked", m.num_batches_tracked);
    visit("training", m.training);
  }

 protected:
  Tensor normalise(const char* layer, const Tensor& x, int axes) const;
};

/// x (N, C, L).
struct InstanceNorm1d : InstanceNorm {
  using InstanceNorm::InstanceNorm;
  Tensor operator()(const Tensor& x) const { return normalise("InstanceNorm1d", x, 3); }
};

/// x (N, C, H, W).
struct InstanceNorm2d : InstanceNorm {
  using InstanceNorm::InstanceNorm;
  Tensor operator()(const Tensor& x) const { return normalise("InstanceNorm2d", x, 4); }
};

/// x (N, C, D, H, W).
struct InstanceNorm3d : InstanceNorm {
  using InstanceNorm::InstanceNorm;
  Tensor operator()(const Tensor& x) const { return normalise("InstanceNorm3d", x, 5); }
};

}  // namespace tern::nn
