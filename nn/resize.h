// Layers that resize images, for Sequential. Functions and options are in
// core/ops/convolution/interpolate.h, conv.h and padding.h:
//   nn::Upsample up({.scale_factor = 2, .mode = Interpolation::bilinear});
//   nn::Pad around({1, 1, 1, 1}, PaddingMode::reflect);   // torch.nn.ReflectionPad2d(1)
#pragma once

#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/pooling.h"

namespace tern::nn {

struct Upsample : detail::WithOptions<InterpolateOptions, interpolate> {
  explicit Upsample(const InterpolateOptions& o) : WithOptions(o) {}
};

/// x (..., C*r*r, H, W) -> (..., C, H*r, W*r).
struct PixelShuffle {
  int64_t upscale_factor;
  explicit PixelShuffle(int64_t factor) : upscale_factor(factor) {}
  Tensor operator()(const Tensor& x) const { return pixel_shuffle(x, upscale_factor); }
  static void fields(auto&, auto&&) {}
};

/// x (..., C, H*r, W*r) -> (..., C*r*r, H, W).
struct PixelUnshuffle {
  int64_t downscale_factor;
  explicit PixelUnshuffle(int64_t factor) : downscale_factor(factor) {}
  Tensor operator()(const Tensor& x) const { return pixel_unshuffle(x, downscale_factor); }
  static void fields(auto&, auto&&) {}
};

/// {left, right} of the last axis, then of the one before, ...: with zeros as torch.nn.ZeroPad2d,
/// or as ReflectionPad, ReplicationPad and CircularPad for any number of axes.
struct Pad {
  Dims pads;
  PaddingMode mode;
  explicit Pad(const Dims& p, PaddingMode m = PaddingMode::zeros) : pads(p), mode(m) {}
  Tensor operator()(const Tensor& x) const { return pad(x, pads, mode); }
  static void fields(auto&, auto&&) {}
};

/// x (B, C, H, W) -> (B, C*KH*KW, windows).
struct Unfold : detail::WithOptions<UnfoldOptions, unfold> {
  explicit Unfold(const UnfoldOptions& o) : WithOptions(o) {}
};

/// x (B, C*KH*KW, windows) -> (B, C, H, W).
struct Fold {
  Size2 output_size;
  UnfoldOptions options;
  Fold(Size2 size, const UnfoldOptions& o) : output_size(size), options(o) {}
  Tensor operator()(const Tensor& x) const { return fold(x, output_size, options); }
  static void fields(auto&, auto&&) {}
};

}  // namespace tern::nn
