// Resizing images: interpolation, and moving pixels between channels and space.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// How values between elements are computed. linear needs one spatial axis, bilinear and bicubic
/// (Keys 1981 with a = -0.75; -0.5 with antialias) two, trilinear three. nearest, nearest_exact and
/// area (adaptive_avg_pool) take any number. nearest picks floor(i / scale), as OpenCV.
/// nearest_exact picks the element with the nearest centre, as scikit-image and Pillow.
enum class Interpolation { nearest, nearest_exact, linear, bilinear, bicubic, trilinear, area };

/// One factor for all spatial axes, or one for each.
class ScaleFactor {
 public:
  ScaleFactor() = default;
  ScaleFactor(double all) : each_{all} {}                            // NOLINT: implicit
  ScaleFactor(std::initializer_list<double> each) : each_(each) {}   // NOLINT: implicit
  ScaleFactor(std::vector<double> each) : each_(std::move(each)) {}  // NOLINT: implicit
  const std::vector<double>& each() const { return each_; }

 private:
  std::vector<double> each_;
};

struct InterpolateOptions {
  Dims size = {};                 ///< output sizes: one for all spatial axes or one for each
  ScaleFactor scale_factor = {};  ///< or this instead: output sizes are floor(input * factor)
  Interpolation mode = Interpolation::nearest;
  /// true: the corner elements' centres of input and output coincide; false (default): their outer
  /// edges do. Only for linear, bilinear, bicubic and trilinear.
  std::optional<bool> align_corners = {};
  /// Computes positions from the sizes instead of the factor. The two may differ by rounding.
  bool recompute_scale_factor = false;
  /// When shrinking, averages over all input elements that an output covers, as Pillow. Only for
  /// bilinear and bicubic.
  bool antialias = false;
};

/// Resizes the spatial axes of x (B, C, 1 to 3 spatial axes). Computes positions in double.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// x (..., C*r*r, H, W) -> (..., C, H*r, W*r) (Shi et al. 2016), r = upscale_factor.
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor);
/// x (..., C, H*r, W*r) -> (..., C*r*r, H, W).
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor);

}  // namespace tern
