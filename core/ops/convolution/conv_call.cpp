// Output sizes of convolutions and pooling, and the ops to_patches and from_patches, each the
// gradient of the other.
#include "tern/core/ops/convolution/conv_call.h"

#include <algorithm>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern::detail {
namespace {

int64_t output_size(const char* op, const ConvCall& c, size_t i) {
  const int64_t size = c.size[i], kernel = c.kernel[i], stride = c.stride[i];
  const int64_t padding = c.padding[i], dilation = c.dilation[i];
  check(kernel > 0 && stride > 0 && padding >= 0 && dilation > 0,
        "{}: kernel {}, stride {} and dilation {} must be positive, padding {} not negative", op,
        kernel, stride, dilation, padding);
  const int64_t padded = checked_sum(op, size, checked_product(op, 2, padding));
  const int64_t room = padded - checked_product(op, dilation, kernel - 1) - 1;
  const int64_t last = c.ceil_mode ? checked_sum(op, room, stride - 1) : room;
  check(last >= 0, "{}: a kernel of {} (dilation {}) is larger than the input {} with padding {}",
        op, kernel, dilation, size, padding);
  const int64_t windows = last / stride + 1;
  // A window must begin in the input or in the padding before it.
  if (c.ceil_mode && (windows - 1) * stride >= size + padding) return windows - 1;
  return windows;
}

}  // namespace

void set_output_size(const char* op, ConvCall& c) {
  for (size_t i = 3 - static_cast<size_t>(c.axes); i < 3; ++i) {
    c.out_size[i] = output_size(op, c, i);
    // All strides beyond the padded input mean one window. Kernels can add to this one.
    const int64_t far = std::max(c.size[i] + 2 * c.padding[i], int64_t{1} << 31);
    c.stride[i] = std::min(c.stride[i], far);
  }
  for (const kernels::Conv::Sizes& sizes : {c.kernel, c.out_size})
    checked_product(op, checked_product(op, sizes[0], sizes[1]), sizes[2]);
}

bool are_patches(const ConvCall& c) {
  const kernels::Conv::Sizes none = {0, 0, 0}, ones = {1, 1, 1};
  return c.kernel == c.stride && c.padding == none && c.dilation == ones;
}

Tensor to_patches(const ConvCall& c, const Tensor& x) {
  Op op("to_patches", x);
  Fresh y(Shape{c.batch, c.out_plane(), c.in * c.taps()}, x.dtype());
  Tensor xc = x.detach().contiguous();
  dispatch_float(x.dtype(), "to_patches",
                 [&]<class T>() { kernels::gather_patches(c, xc.data<T>(), y.data<T>()); });
  return op.record(y, [c](const Tensor& dy) { return from_patches(c, dy); });
}

Tensor from_patches(const ConvCall& c, const Tensor& patches) {
  Op op("from_patches", patches);
  Fresh x(c.input_shape(), patches.dtype());
  Tensor p = patches.detach().contiguous();
  dispatch_float(patches.dtype(), "from_patches",
                 [&]<class T>() { kernels::scatter_patches(c, p.data<T>(), x.data<T>()); });
  return op.record(x, [c](const Tensor& d) { return to_patches(c, d); });
}

void check_space(const char* op, const Tensor& x, int axes) {
  check_defined(op, x);
  constexpr const char* kSpace[] = {"length", "height, width", "depth, height, width"};
  check(x.ndim() == axes + 2,
        "{}: the input must be (batch, channels, {}), got {}; if it has no batch axis, give "
        "unsqueeze(x, 0)",
        op, kSpace[axes - 1], x.shape());
  check(is_float(x.dtype()), "{}: needs a floating tensor, got {}; convert with .to()", op,
        x.dtype());
}

}  // namespace tern::detail
