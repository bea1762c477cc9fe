// Convolutions of contiguous arrays: x (batch, in, size), w (out, in / groups, kernel), y (batch,
// out, out_size). Sizes are {depth, height, width}, with 1 for absent axes. The division of work
// depends only on the shape, so results do not depend on the number of threads.
// Inside of core only.
#pragma once

#include <array>
#include <cstdint>

#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

struct Conv {
  using Sizes = std::array<int64_t, 3>;
  int64_t batch = 0, in = 0, out = 0, groups = 1;
  Sizes size = {1, 1, 1}, out_size = {1, 1, 1};
  bool winograd = true;  ///< whether Winograd's method is allowed where it is faster
  Sizes kernel = {1, 1, 1}, stride = {1, 1, 1}, padding = {0, 0, 0}, dilation = {1, 1, 1};

  int64_t in_group() const { return in / groups; }
  int64_t out_group() const { return out / groups; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t width() const { return size[2]; }
  int64_t plane() const { return size[0] * size[1] * size[2]; }
  int64_t out_width() const { return out_size[2]; }
  int64_t out_rows() const { return out_size[0] * out_size[1]; }  ///< rows of out_width elements
  int64_t out_plane() const { return out_rows() * out_width(); }
  /// Number of multiplications.
  int64_t work() const { return batch * out * out_plane() * in_group() * taps(); }
  /// One input channel per group: computed directly, not as a matrix product.
  bool depthwise() const { return in == groups; }
};

/// y = x * w + bias; bias may be null.
template <class T>
void conv(const Conv& c, const T* x, const T* w, const T* bias, T* y);

/// The gradient by x from dy, which is the transposed convolution.
template <class T>
void conv_input_grad(const Conv& c, const T* dy, const T* w, T* dx);

/// The gradient by w from x and dy. Only if matmul_precision() is bf16 may x be stored as bfloat16.
template <class T>
void conv_weight_grad(const Conv& c, Elements<T> x, const T* dy, T* dw);

/// columns (batch, in * taps, out_plane): the element that each tap of each channel reads for each
/// output, 0 for padding. The inverse sums these elements back into x.
template <class T>
void gather_columns(const Conv& c, const T* x, T* columns);
template <class T>
void add_columns(const Conv& c, const T* columns, T* x);

/// patches (batch, out_plane, in * taps): the elements that each output reads, for windows without
/// overlap and padding. The inverse writes them back to x, with 0 outside of all windows.
template <class T>
void gather_patches(const Conv& c, const T* x, T* patches);
template <class T>
void scatter_patches(const Conv& c, const T* patches, T* x);

}  // namespace tern::kernels
