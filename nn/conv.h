// Convolutions and transposed convolutions, as torch.nn's. The option padding_mode says how a
// convolution's `padding` is filled: zeros, reflect, replicate or circular.
#pragma once

#include "tern/core/ops/convolution/conv.h"
#include "tern/nn/linear.h"

namespace tern::nn {

/// Base of Conv1d, 2d and 3d. `Size` is int64_t, Size2 or Size3.
template <class Size>
struct Conv {
  Parameter weight, bias;
  ConvOptions<Size> options;

  Conv(int64_t in, int64_t out, Size kernel, Rng& rng, const ConvOptions<Size>& options = {},
       Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return with_weight(weight, x); }
  /// Runs the layer with another weight, for nn/parametrizations.h.
  Tensor with_weight(const Tensor& w, const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, L) -> (B, out, L'). Weight (out, in/groups, kernel) and bias (out) start in
/// U(±1/sqrt(in/groups * kernel)).
struct Conv1d : Conv<int64_t> {
  using Conv::Conv;
};

/// x (B, in, H, W) -> (B, out, H', W'). Weight (out, in/groups, kernel) and bias (out) start in
/// U(±1/sqrt(in/groups * kernel[0] * kernel[1])).
struct Conv2d : Conv<Size2> {
  using Conv::Conv;
};

/// x (B, in, D, H, W) -> (B, out, D', H', W'). Weight (out, in/groups, kernel) and bias (out) start
/// in U(±1/sqrt(in/groups * kernel[0] * kernel[1] * kernel[2])).
struct Conv3d : Conv<Size3> {
  using Conv::Conv;
};

/// Base of ConvTranspose1d, 2d and 3d. `Size` is int64_t, Size2 or Size3.
/// `output_size` (the spatial sizes) chooses the output_padding, for strides where several input
/// sizes give one output size.
template <class Size>
struct ConvTranspose {
  static constexpr int64_t kOutputAxis = 1;  ///< of the weight
  Parameter weight, bias;
  ConvTransposeOptions<Size> options;

  ConvTranspose(int64_t in, int64_t out, Size kernel, Rng& rng,
                const ConvTransposeOptions<Size>& options = {}, Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x, const Dims& output_size = {}) const {
    return with_weight(weight, x, output_size);
  }
  Tensor with_weight(const Tensor& w, const Tensor& x, const Dims& output_size = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// x (B, in, L) -> (B, out, L'). Weight (in, out/groups, kernel) and bias (out) start in
/// U(±1/sqrt(out/groups * kernel)).
struct ConvTranspose1d : ConvTranspose<int64_t> {
  using ConvTranspose::ConvTranspose;
};

/// x (B, in, H, W) -> (B, out, H', W'). Weight (in, out/groups, kernel) and bias (out) start in
/// U(±1/sqrt(out/groups * kernel[0] * kernel[1])).
struct ConvTranspose2d : ConvTranspose<Size2> {
  using ConvTranspose::ConvTranspose;
};

/// x (B, in, D, H, W) -> (B, out, D', H', W'). Weight (in, out/groups, kernel) and bias (out) start
/// in U(±1/sqrt(out/groups * kernel[0] * kernel[1] * kernel[2])).
struct ConvTranspose3d : ConvTranspose<Size3> {
  using ConvTranspose::ConvTranspose;
};

}  // namespace tern::nn
