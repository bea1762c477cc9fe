// Convolutions (cross-correlations, as in PyTorch) and pooling.
#pragma once

#include <array>
#include <concepts>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Two numbers, {height, width}. One means both, as in PyTorch: `.padding = 1` and `.padding = {1}`
/// are `.padding = {1, 1}`.
class Size2 {
 public:
  template <std::integral I>
  constexpr Size2(I both)  // NOLINT: implicit on purpose
      : v_{static_cast<int64_t>(both), static_cast<int64_t>(both)} {}
  constexpr Size2(int64_t height, int64_t width) : v_{height, width} {}
  template <std::same_as<std::array<int64_t, 2>> Array>
  constexpr Size2(const Array& both) : v_(both) {}  // NOLINT: implicit on purpose

  constexpr int64_t height() const { return v_[0]; }
  constexpr int64_t width() const { return v_[1]; }
  constexpr int64_t operator[](size_t i) const { return v_[i]; }
  constexpr operator const std::array<int64_t, 2>&() const { return v_; }  // NOLINT: implicit
  constexpr bool operator==(const Size2&) const = default;

 private:
  std::array<int64_t, 2> v_;
};

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// x (B, C, L), w (O, C/groups, K), b (O) or undefined -> (B, O, L').
Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv1dOptions& options = {});

struct Conv2dOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
};
/// x (B, C, H, W), w (O, C/groups, KH, KW), b (O) or undefined -> (B, O, H', W') with
/// H' = (H + 2*padding - dilation*(KH-1) - 1) / stride + 1.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv2dOptions& options = {});

struct Pool2dOptions {
  Size2 kernel = 2;
  Size2 stride = 0;  ///< 0: the kernel's size
  Size2 padding = 0;
  bool count_include_pad = true;  ///< avg_pool2d: padding counts in the mean
};
/// x (B, C, H, W).
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});

}  // namespace tern
