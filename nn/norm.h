// Normalisation layers, as torch.nn's. Weights start at 1, biases at 0.
#pragma once

#include <initializer_list>
#include <optional>

#include "tern/core/ops/normalisation/residual.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/dropout.h"
#include "tern/nn/linear.h"
#include "tern/nn/training_mode.h"

namespace tern::nn {

struct NormOptions {
  std::optional<double> eps = {};  ///< default: 1e-5, of RmsNorm 2^-23
  bool affine = true;              ///< false: neither weight nor bias
  Bias bias = Bias::yes;           ///< no: only weight
  double offset = 0;  ///< RmsNorm adds it to its weight, which starts at 1 - offset; others: Error
};

/// Over the last axes, whose sizes are `shape`: (x - mean) / sqrt(var + eps) * weight + bias.
struct LayerNorm {
  Parameter weight, bias;
  Shape shape;
  double eps;

  explicit LayerNorm(const Shape& shape, const NormOptions& options = {});
  /// For LayerNorm({64}), which could also mean a copy of LayerNorm(64).
  explicit LayerNorm(std::initializer_list<Shape::Item> shape, const NormOptions& options = {})
      : LayerNorm(Shape(shape), options) {}
  Tensor operator()(const Tensor& x) const { return layer_norm(x, shape, weight, bias, eps); }
  /// The norm of residual + dropout(x), in one pass.
  Tensor of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  /// Returns the sum too.
  SumAndNorm with_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang & Sennrich 2019). The default eps,
/// 2^-23, is PyTorch's for f32: the distance from 1 to the next f32. With an offset the factor is
/// weight + offset: Gemma's models are trained and stored with 1, so weight decay pulls the factor
/// to 1.
struct RmsNorm {
  Parameter weight;
  Shape shape;
  double eps, offset;

  explicit RmsNorm(const Shape& shape, const NormOptions& options = {});
  explicit RmsNorm(std::initializer_list<Shape::Item> shape, const NormOptions& options = {})
      : RmsNorm(Shape(shape), options) {}
  Tensor operator()(const Tensor& x) const { return rms_norm(x, shape, factor(), eps); }
  /// What the normalised x is multiplied by; undefined without a weight.
  Tensor factor() const;
  /// As in LayerNorm.
  Tensor of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  SumAndNorm with_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const;
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};

/// x (N, C, ...): normalises each of `groups` groups of channels separately.
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
  /// Weight of the new batch in the running statistics. std::nullopt: 1 / number of batches, which
  /// gives the mean over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool scale = true;                ///< false: only a bias, no weight
  bool track_running_stats = true;  ///< false: normalises by the batch in evaluation too
};

namespace detail {

/// What the norms below hold: a weight and a bias, and the statistics of earlier batches.
struct TrackedNorm {
  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
  double eps;
  TrainingMode training = true;

  TrackedNorm(int64_t channels, double eps, bool affine, bool tracks);
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
    visit("running_mean", m.running_mean);
    visit("running_var", m.running_var);
    visit("num_batches_tracked", m.num_batches_tracked);
    visit("training", m.training);
  }
};

}  // namespace detail

/// Base of BatchNorm1d, 2d and 3d. Training normalises each channel by the batch and updates the
/// running mean and (unbiased) variance; evaluation normalises by these.
struct BatchNorm : detail::TrackedNorm {
  std::optional<double> momentum;

  explicit BatchNorm(int64_t channels, const BatchNormConfig& config = {});

 protected:
  Tensor normalise(const Tensor& x) const;
};

/// x (N, C) or (N, C, L).
struct BatchNorm1d : BatchNorm {
  using BatchNorm::BatchNorm;
  Tensor operator()(const Tensor& x) const;
};

/// x (N, C, H, W).
struct BatchNorm2d : BatchNorm {
  using BatchNorm::BatchNorm;
  Tensor operator()(const Tensor& x) const;
};

/// x (N, C, D, H, W).
struct BatchNorm3d : BatchNorm {
  using BatchNorm::BatchNorm;
  Tensor operator()(const Tensor& x) const;
};

struct InstanceNormConfig {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new batch in the running statistics
  bool affine = false;
  bool track_running_stats = false;  ///< true: normalises by them in evaluation
};

/// Base of InstanceNorm1d, 2d and 3d: normalises each channel of each sample separately (Ulyanov et
/// al. 2016).
struct InstanceNorm : detail::TrackedNorm {
  int64_t channels;
  double momentum;

  explicit InstanceNorm(int64_t channels, const InstanceNormConfig& config = {});

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
