// Values of pictures at any positions: spatial transformers, warping by optical flow, deformation
// fields of volumes.
#pragma once

#include "tern/core/ops/convolution/interpolate.h"
#include "tern/core/ops/convolution/spatial.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

struct GridSampleOptions {
  /// nearest, bilinear or bicubic; in volumes these are trilinear and tricubic (not in PyTorch).
  Interpolation mode = Interpolation::bilinear;
  /// What lies outside of x: zeros; replicate, the nearest element (PyTorch's "border"); or
  /// reflect, the mirror image (PyTorch's "reflection").
  PaddingMode padding = PaddingMode::zeros;
  /// What -1 and 1 mean. true: the centres of the first and the last element. false: the outer
  /// edges of these elements, half an element further out.
  bool align_corners = false;
};

/// x (B, C, H, W), grid (B, H', W', 2) -> (B, C, H', W'): the values of x at the positions (x, y)
/// of the grid, where -1 and 1 are the edges. Of volumes: x (B, C, D, H, W),
/// grid (B, D', H', W', 3) with positions (x, y, z). Gradients reach x and the grid; for nearest,
/// the grid's is 0. NaN counts as a position outside. As torch.nn.functional.grid_sample.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

/// The grid of a linear map: theta (B, 2, 3) and size {B, C, H, W} give (B, H, W, 2), and theta
/// (B, 3, 4) with size {B, C, D, H, W} gives (B, D, H, W, 3). A position p of the output is read at
/// theta (p, 1). As torch.nn.functional.affine_grid.
Tensor affine_grid(const Tensor& theta, const Shape& size, bool align_corners = false);

}  // namespace tern
