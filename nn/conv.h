// Convolutions and transposed convolutions, as torch.nn's. The option padding_mode says how a
// convolution's `padding` is filled: zeros, reflect, replicate or circular.
#pragma once

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
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  /// Runs the layer with another weight, for nn/parametrizations.h.
  Tensor with_weight(const Tensor& w, const Tensor& x) const { return conv1d(x, w, bias, options); }
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
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  /// Runs the layer with another weight, for nn/parametrizations.h.
  Tensor with_weight(const Tensor& w, const Tensor& x) const { return conv2d(x, w, bias, options); }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, D, H, W) -> (B, out, D', H', W'). Weight (out, in/groups, kernel) and bias (out) start
/// in U(±1/sqrt(in/groups * kernel[0] * kernel[1] * kernel[2])).
struct Conv3d {
  Parameter weight, bias;
  Conv3dOptions options;

  Conv3d(int64_t in, int64_t out, Size3 kernel, Rng& rng, const Conv3dOptions& options = {},
         Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  /// Runs the layer with another weight, for nn/parametrizations.h.
  Tensor with_weight(const Tensor& w, const Tensor& x) const { return conv3d(x, w, bias, options); }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, L) -> (B, out, L'). Weight (in, out/groups, kernel) and bias (out) start in
/// U(±1/sqrt(out/groups * kernel)).
/// `output_size` (the spatial sizes) chooses the output_padding, for strides where several input
/// sizes give one output size.
struct ConvTranspose1d {
  static constexpr int64_t kOutputAxis = 1;  ///< of the weight
  Parameter weight, bias;
  ConvTranspose1dOptions options;

  ConvTranspose1d(int64_t in, int64_t out, int64_t kernel, Rng& rng,
                  const ConvTranspose1dOptions& options = {}, Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  Tensor operator()(const Tensor& x, const Dims& output_size) const {
    return with_weight(weight, x, output_size);
  }
  Tensor with_weight(const Tensor& w, const Tensor& x, const Dims& output_size = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, H, W) -> (B, out, H', W'). Weight (in, out/groups, kernel) and bias (out) start in
/// U(±1/sqrt(out/groups * kernel[0] * kernel[1])).
struct ConvTranspose2d {
  static constexpr int64_t kOutputAxis = 1;  ///< of the weight
  Parameter weight, bias;
  ConvTranspose2dOptions options;

  ConvTranspose2d(int64_t in, int64_t out, Size2 kernel, Rng& rng,
                  const ConvTranspose2dOptions& options = {}, Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  Tensor operator()(const Tensor& x, const Dims& output_size) const {
    return with_weight(weight, x, output_size);
  }
  Tensor with_weight(const Tensor& w, const Tensor& x, const Dims& output_size = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, D, H, W) -> (B, out, D', H', W'). Weight (in, out/groups, kernel) and bias (out) start
/// in U(±1/sqrt(out/groups * kernel[0] * kernel[1] * kernel[2])).
struct ConvTranspose3d {
  static constexpr int64_t kOutputAxis = 1;  ///< of the weight
  Parameter weight, bias;
  ConvTranspose3dOptions options;

  ConvTranspose3d(int64_t in, int64_t out, Size3 kernel, Rng& rng,
                  const ConvTranspose3dOptions& options = {}, Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  Tensor operator()(const Tensor& x, const Dims& output_size) const {
    return with_weight(weight, x, output_size);
  }
  Tensor with_weight(const Tensor& w, const Tensor& x, const Dims& output_size = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

}  // namespace tern::nn
