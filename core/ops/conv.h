// Convolutions (cross-correlations, as in PyTorch) and pooling.
#pragma once

#include <array>

#include "tern/core/tensor/tensor.h"

namespace tern {

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// x (B, C, L), w (O, C/groups, K), b (O) or undefined -> (B, O, L').
Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv1dOptions& options = {});

struct Conv2dOptions {
  std::array<int64_t, 2> stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
};
/// x (B, C, H, W), w (O, C/groups, KH, KW), b (O) or undefined -> (B, O, H', W') with
/// H' = (H + 2*padding - dilation*(KH-1) - 1) / stride + 1.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b = {},
              const Conv2dOptions& options = {});

struct Pool2dOptions {
  std::array<int64_t, 2> kernel = {2, 2};
  std::array<int64_t, 2> stride = {0, 0};  ///< 0: the kernel's size
  std::array<int64_t, 2> padding = {0, 0};
  bool count_include_pad = true;  ///< avg_pool2d: padding counts in the mean
};
/// x (B, C, H, W).
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});

}  // namespace tern
