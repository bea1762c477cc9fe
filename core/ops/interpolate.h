// Images of another size: interpolation, and pixels moved between channels and space.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// How elements are found between elements. linear is for one axis of space, bilinear and bicubic
/// (Keys 1981 with a = -0.75; -0.5 with antialias) for two, trilinear for three; nearest,
/// nearest_exact and area (adaptive_avg_pool) for any. nearest takes floor(i / scale), as OpenCV
/// does; nearest_exact the element whose middle is next, as scikit-image and Pillow.
enum class Interpolation { nearest, nearest_exact, linear, bilinear, bicubic, trilinear, area };

/// A factor for all axes of space, or one for each.
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
  Dims size = {};                 ///< of the output, one for all axes of space or one for each; or
  ScaleFactor scale_factor = {};  ///< sizes are floor(input * factor)
  Interpolation mode = Interpolation::nearest;
  /// Corners of input and output are one point (true), or edges are (false, the default). Only for
  /// linear, bilinear, bicubic and trilinear.
  std::optional<bool> align_corners = {};
  /// Positions come from the sizes rather than from the factor, which may differ by rounding.
  bool recompute_scale_factor = false;
  /// Bilinear and bicubic only: where it gets smaller, each output is a weighted mean of all that
  /// it covers, as Pillow's.
  bool antialias = false;
};

/// x (B, C, 1 to 3 axes of space) with other sizes in space. Positions are computed in double.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/// x (..., C*r*r, H, W) -> (..., C, H*r, W*r) (Shi et al. 2016), r = upscale_factor.
Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor);
/// x (..., C, H*r, W*r) -> (..., C*r*r, H, W).
Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor);

}  // namespace tern
