// Transposed convolutions: the gradient of a convolution with respect to its input.
#include "tern/core/ops/composed_scope.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/conv_call.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::ConvCall;

void check_arguments(const char* op, const Tensor& x, const Tensor& w, const Tensor& b, int axes,
                     int64_t groups) {
  check_defined(op, x, w);
  check(x.ndim() == axes + 2 && w.ndim() == axes + 2,
        "{}: needs x (batch, in, {} spatial axes) and w (in, out / groups, {} sizes of the "
        "kernel), got {} and {}",
        op, axes, axes, x.shape(), w.shape());
  check(w.size(0) > 0 && w.size(1) > 0 && x.size(1) == w.size(0),
        "{}: the input {} has {} channels, but the weight {} takes {}", op, x.shape(), x.size(1),
        w.shape(), w.size(0));
  check(groups > 0 && w.size(0) % groups == 0, "{}: {} channels cannot be split into {} groups", op,
        w.size(0), groups);
  const int64_t out = checked_product(op, w.size(1), groups);
  check(!b.defined() || b.shape() == Shape{out}, "{}: the bias must be ({},), got {}", op, out,
        b.defined() ? b.shape() : Shape());
  check(x.dtype() == w.dtype() && (!b.defined() || b.dtype() == x.dtype()),
        "{}: the input is {}, the weight {}; convert one with .to()", op, x.dtype(), w.dtype());
}

// The size of an output axis, which is the input of the convolution.
int64_t output_size(const char* op, const ConvCall& c, size_t i, int64_t output_padding) {
  const int64_t kernel = c.kernel[i], stride = c.stride[i], padding = c.padding[i];
  const int64_t dilation = c.dilation[i];
  check(kernel > 0 && stride > 0 && padding >= 0 && dilation > 0,
        "{}: kernel {}, stride {} and dilation {} must be positive, padding {} not negative", op,
        kernel, stride, dilation, padding);
  check(output_padding >= 0 && output_padding < std::max(stride, dilation),
        "{}: output_padding {} must be less than stride {} or dilation {}", op, output_padding,
        stride, dilation);
  check(c.out_size[i] > 0, "{}: the input has no elements along a spatial axis", op);
  int64_t size = checked_product(op, c.out_size[i] - 1, stride);
  size = checked_sum(op, size, checked_product(op, dilation, kernel - 1));
  size = checked_sum(op, size, output_padding + 1);
  size = checked_sum(op, size, -checked_product(op, 2, padding));
  check(size > 0,
        "{}: padding {} leaves no output for {} inputs with kernel {} and stride {}; use less "
        "padding",
        op, padding, c.out_size[i], kernel, stride);
  return size;
}

// Windows that do not overlap: one product, whose rows are patches of the result.
Tensor transpose_patches(const ConvCall& c, const Tensor& x, const Tensor& w) {
  Tensor rows = transpose(reshape(x, {c.batch, c.out, c.out_plane()}), 1, 2);
  return detail::from_patches(c, matmul(rows, reshape(w, {c.out, c.in * c.taps()})));
}

template <class Size>
Tensor any_transpose(const char* name, const Tensor& x, const Tensor& w, const Tensor& b,
                     const ConvTransposeOptions<Size>& o) {
  constexpr int kAxes = detail::kAxes<Size>;
  Op scope(name, x, w, b);
  check_arguments(name, x, w, b, kAxes, o.groups);
  // The convolution whose gradient this is; x has the shape of its output.
  ConvCall c = detail::windows_of(x, Size(1), o.stride, o.padding, o.dilation);
  c.out_size = c.size;
  c.out = c.in;
  c.groups = o.groups;
  c.in = w.size(1) * o.groups;
  const auto output_padding = detail::three(o.output_padding, 0);
  for (size_t i = 0; i < kAxes; ++i) {
    const size_t at = 3 - kAxes + i;
    c.kernel[at] = w.size(static_cast<int64_t>(i) + 2);
    c.size[at] = output_size(name, c, at, output_padding[at]);
  }
  const bool patches = detail::are_patches(c) && c.groups == 1 && !detail::composing();
  Tensor y = patches ? transpose_patches(c, x, w) : detail::conv_input_grad(c, x, w);
  if (!b.defined()) return y;
  Shape by_channel = Dims::filled(kAxes + 1, 1);
  by_channel[0] = c.in;
  return y + reshape(b, by_channel);
}

}  // namespace

Tensor conv_transpose1d(const Tensor& x, const Tensor& w, const Tensor& b,
                        const ConvTranspose1dOptions& options) {
  return any_transpose("conv_transpose1d", x, w, b, options);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const Tensor& b,
                        const ConvTranspose2dOptions& options) {
  return any_transpose("conv_transpose2d", x, w, b, options);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& w, const Tensor& b,
                        const ConvTranspose3dOptions& options) {
  return any_transpose("conv_transpose3d", x, w, b, options);
}

}  // namespace tern
