// Pooling: the maximum or mean of windows of each channel. B batch, C channels, L, H, W, D spatial
// sizes, L' number of windows. A single image needs a batch axis: unsqueeze(x, 0).
#pragma once

#include <cstddef>
#include <optional>

#include "tern/core/ops/convolution/spatial.h"
#include "tern/core/ops/ops.h"

namespace tern {

template <class Size>
struct MaxPoolOptions {
  Size kernel = 2;
  Size stride = 0;         ///< 0: the kernel's size
  Size padding = 0;        ///< at most half of the kernel; never the maximum
  Size dilation = 1;       ///< between the elements of a window
  bool ceil_mode = false;  ///< also counts windows that begin inside but end outside
};
using MaxPool1dOptions = MaxPoolOptions<int64_t>;
using MaxPool2dOptions = MaxPoolOptions<Size2>;
using MaxPool3dOptions = MaxPoolOptions<Size3>;

/// x (B, C, L) -> (B, C, L') with L' = (L + 2*padding - dilation*(kernel-1) - 1) / stride + 1,
/// rounded down, or up with ceil_mode. The first of equals gets the gradient. NaN propagates.
Tensor max_pool1d(const Tensor& x, const MaxPool1dOptions& options = {});
Tensor max_pool2d(const Tensor& x, const MaxPool2dOptions& options = {});  ///< x (B, C, H, W)
Tensor max_pool3d(const Tensor& x, const MaxPool3dOptions& options = {});  ///< x (B, C, D, H, W)
/// PyTorch's return_indices: also gives the row-major position of each maximum in its channel.
ValuesIndices max_pool1d_with_indices(const Tensor& x, const MaxPool1dOptions& options = {});
ValuesIndices max_pool2d_with_indices(const Tensor& x, const MaxPool2dOptions& options = {});
ValuesIndices max_pool3d_with_indices(const Tensor& x, const MaxPool3dOptions& options = {});

template <class Size>
struct AvgPoolOptions {
  Size kernel = 2;
  Size stride = 0;  ///< 0: the kernel's size
  Size padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;                 ///< padding counts in the mean
  std::optional<int64_t> divisor_override = {};  ///< divides the sums by this; must not be 0
};
using AvgPool1dOptions = AvgPoolOptions<int64_t>;
using AvgPool2dOptions = AvgPoolOptions<Size2>;
using AvgPool3dOptions = AvgPoolOptions<Size3>;

/// x (B, C, L) -> (B, C, L') as in max_pool1d. If a window reaches beyond the padding (ceil_mode),
/// only the part inside counts.
Tensor avg_pool1d(const Tensor& x, const AvgPool1dOptions& options = {});
Tensor avg_pool2d(const Tensor& x, const AvgPool2dOptions& options = {});  ///< x (B, C, H, W)
Tensor avg_pool3d(const Tensor& x, const AvgPool3dOptions& options = {});  ///< x (B, C, D, H, W)

/// The output size of adaptive pooling. std::nullopt keeps the input's size.
template <std::size_t n>
class OutputSize {
 public:
  using Axis = std::optional<int64_t>;
  template <std::integral Int>
  constexpr OutputSize(Int all) {  // NOLINT: implicit on purpose
    v_.fill(static_cast<int64_t>(all));
  }
  constexpr OutputSize(std::nullopt_t all) { v_.fill(all); }  // NOLINT: implicit on purpose
  template <std::convertible_to<Axis>... A>
  requires(sizeof...(A) == n && n > 1) constexpr OutputSize(A... each) : v_{Axis(each)...} {}
  constexpr Axis operator[](std::size_t i) const { return v_[i]; }

 private:
  std::array<Axis, n> v_;
};

/// For an axis of n elements and m outputs, window i is from floor(i*n / m) to ceil((i+1)*n / m). x
/// (B, C, L) -> (B, C, size).
Tensor adaptive_avg_pool1d(const Tensor& x, OutputSize<1> size);
Tensor adaptive_avg_pool2d(const Tensor& x, OutputSize<2> size);  ///< x (B, C, H, W)
Tensor adaptive_avg_pool3d(const Tensor& x, OutputSize<3> size);  ///< x (B, C, D, H, W)
Tensor adaptive_max_pool1d(const Tensor& x, OutputSize<1> size);
Tensor adaptive_max_pool2d(const Tensor& x, OutputSize<2> size);
Tensor adaptive_max_pool3d(const Tensor& x, OutputSize<3> size);
ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, OutputSize<1> size);
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, OutputSize<2> size);
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, OutputSize<3> size);

}  // namespace tern
