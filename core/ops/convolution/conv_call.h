// Shared by the ops on windows: their geometry, and the three ops that compute a convolution and
// its gradients. Inside of core only.
#pragma once

#include "tern/core/base/conv_method.h"
#include "tern/core/kernels/convolution/conv.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/tape/op.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// A convolution over the last 1, 2 or 3 of the kernels' axes.
struct ConvCall : kernels::Conv {
  int axes = 2;
  bool ceil_mode = false;  ///< windows may end behind the padding, as pooling can have it

  Shape space(const Sizes& sizes) const { return Shape(sizes.end() - axes, sizes.end()); }
  /// (first, second, sizes...).
  Shape shape(int64_t first, int64_t second, const Sizes& sizes) const {
    Shape s{first, second};
    for (int64_t n : space(sizes)) s.push_back(n);
    return s;
  }
  Shape input_shape() const { return shape(batch, in, size); }
  Shape weight_shape() const { return shape(out, in_group(), kernel); }
  Shape output_shape() const { return shape(batch, out, out_size); }
  /// Tells observers the windows.
  void note(OpScope& op) const {
    op.note("kernel", space(kernel), "stride", space(stride), "padding", space(padding), "dilation",
            space(dilation), "ceil_mode", ceil_mode);
  }
};

/// {1, ..., given}: expands an op's sizes to the kernels' three axes, with `missing` for absent
/// axes.
template <size_t n>
std::array<int64_t, 3> three(const SpatialSize<n>& given, int64_t missing) {
  std::array<int64_t, 3> sizes;
  sizes.fill(missing);
  for (size_t i = 0; i < n; ++i) sizes[3 - n + i] = given[i];
  return sizes;
}
inline std::array<int64_t, 3> three(int64_t given, int64_t missing) {
  return {missing, missing, given};
}

/// Number of spatial axes of a size.
template <class Size>
constexpr int kAxes = 1;
template <size_t n>
constexpr int kAxes<SpatialSize<n>> = static_cast<int>(n);

/// The windows of x (B, C, space...) under these options, with `out` output channels. Output sizes
/// are not set yet.
template <class Size>
ConvCall windows_of(const Tensor& x, Size kernel, Size stride, Size padding, Size dilation) {
  ConvCall c;
  c.axes = kAxes<Size>;
  c.winograd = conv_method() == ConvMethod::winograd;
  c.batch = x.size(0);
  c.in = x.size(1);
  for (int a = 0; a < c.axes; ++a) c.size[static_cast<size_t>(3 - c.axes + a)] = x.size(2 + a);
  c.kernel = three(kernel, 1);
  c.stride = three(stride, 1);
  c.padding = three(padding, 0);
  c.dilation = three(dilation, 1);
  return c;
}

/// Sets the number of windows along each axis. Error if a kernel is larger than the input.
void set_output_size(const char* op, ConvCall& c);

/// y = x * w + b; x (B, C, ...), w (O, C/groups, ...), b (O) or undefined.
Tensor convolve(const ConvCall& c, const Tensor& x, const Tensor& w, const Tensor& b);
/// Its gradient with respect to x: the transposed convolution.
Tensor conv_input_grad(const ConvCall& c, const Tensor& dy, const Tensor& w);

/// Whether windows tile the input without overlap, gaps or padding.
bool are_patches(const ConvCall& c);
/// x -> (B, windows, in * taps) for patches, and the inverse.
Tensor to_patches(const ConvCall& c, const Tensor& x);
Tensor from_patches(const ConvCall& c, const Tensor& patches);

/// Error unless x (B, C, 1 to 3 spatial axes) is defined and floating.
void check_space(const char* op, const Tensor& x, int axes);

}  // namespace tern::detail
