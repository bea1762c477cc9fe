// Pooling layers, for Sequential. Functions and options are in core/ops/convolution/pooling.h:
//   nn::MaxPool2d pool({.kernel = 3, .stride = 2, .padding = 1});
//   nn::AdaptiveAvgPool2d head(1);   // (B, C, H, W) -> (B, C, 1, 1)
#pragma once

#include "tern/core/ops/convolution/pooling.h"

namespace tern::nn {
namespace detail {

/// A layer made of a function and its options.
template <class Options, Tensor (*function)(const Tensor&, const Options&)>
struct WithOptions {
  Options options;
  explicit WithOptions(const Options& o = {}) : options(o) {}
  Tensor operator()(const Tensor& x) const { return function(x, options); }
  static void fields(auto&, auto&&) {}
};

template <std::size_t n, Tensor (*function)(const Tensor&, OutputSize<n>)>
struct ToSize {
  OutputSize<n> size;
  explicit ToSize(OutputSize<n> s) : size(s) {}
  Tensor operator()(const Tensor& x) const { return function(x, size); }
  static void fields(auto&, auto&&) {}
};

}  // namespace detail

struct MaxPool1d : detail::WithOptions<MaxPool1dOptions, max_pool1d> {
  using WithOptions::WithOptions;
};
struct MaxPool2d : detail::WithOptions<MaxPool2dOptions, max_pool2d> {
  using WithOptions::WithOptions;
};
struct MaxPool3d : detail::WithOptions<MaxPool3dOptions, max_pool3d> {
  using WithOptions::WithOptions;
};
struct AvgPool1d : detail::WithOptions<AvgPool1dOptions, avg_pool1d> {
  using WithOptions::WithOptions;
};
struct AvgPool2d : detail::WithOptions<AvgPool2dOptions, avg_pool2d> {
  using WithOptions::WithOptions;
};
struct AvgPool3d : detail::WithOptions<AvgPool3dOptions, avg_pool3d> {
  using WithOptions::WithOptions;
};
struct AdaptiveAvgPool1d : detail::ToSize<1, adaptive_avg_pool1d> {
  using ToSize::ToSize;
};
struct AdaptiveAvgPool2d : detail::ToSize<2, adaptive_avg_pool2d> {
  using ToSize::ToSize;
};
struct AdaptiveAvgPool3d : detail::ToSize<3, adaptive_avg_pool3d> {
  using ToSize::ToSize;
};
struct AdaptiveMaxPool1d : detail::ToSize<1, adaptive_max_pool1d> {
  using ToSize::ToSize;
};
struct AdaptiveMaxPool2d : detail::ToSize<2, adaptive_max_pool2d> {
  using ToSize::ToSize;
};
struct AdaptiveMaxPool3d : detail::ToSize<3, adaptive_max_pool3d> {
  using ToSize::ToSize;
};

}  // namespace tern::nn
