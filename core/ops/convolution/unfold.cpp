// Windows of images as columns (im2col) and back (col2im). Each is the other's gradient.
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/convolution/conv_call.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::ConvCall;

ConvCall unfold_geometry(const char* op, const Tensor& x, const UnfoldOptions& o) {
  ConvCall c = detail::windows_of(x, o.kernel, o.stride, o.padding, o.dilation);
  detail::set_output_size(op, c);
  return c;
}

Tensor to_columns(const ConvCall& c, const Tensor& x);

Tensor from_columns(const ConvCall& c, const Tensor& columns) {
  Op op("fold", columns);
  c.note(op);
  op.note("windows", c.space(c.out_size));
  Fresh x(c.input_shape(), columns.dtype());
  Tensor from = columns.detach().contiguous();
  dispatch_float(columns.dtype(), "fold",
                 [&]<class T>() { kernels::add_columns(c, from.data<T>(), x.data<T>()); });
  return op.record(x, [c](const Tensor& d) { return to_columns(c, d); });
}

Tensor to_columns(const ConvCall& c, const Tensor& x) {
  Op op("unfold", x);
  c.note(op);
  Fresh y(Shape{c.batch, checked_product("unfold", c.in, c.taps()), c.out_plane()}, x.dtype());
  Tensor from = x.detach().contiguous();
  dispatch_float(x.dtype(), "unfold",
                 [&]<class T>() { kernels::gather_columns(c, from.data<T>(), y.data<T>()); });
  return op.record(y, [c](const Tensor& d) { return from_columns(c, d); });
}

}  // namespace

Tensor unfold(const Tensor& x, const UnfoldOptions& options) {
  detail::check_space("unfold", x, 2);
  return to_columns(unfold_geometry("unfold", x, options), x);
}

Tensor fold(const Tensor& x, Size2 output_size, const UnfoldOptions& o) {
  check_defined("fold", x);
  check(is_float(x.dtype()), "fold: needs a floating tensor, got {}; convert with .to()",
        x.dtype());
  const int64_t taps = checked_product("fold", o.kernel[0], o.kernel[1]);
  check(x.ndim() == 3 && taps > 0 && x.size(1) % taps == 0,
        "fold: needs x (batch, channels * {} kernel elements, windows), got {}", taps, x.shape());
  for (size_t i = 0; i < 2; ++i)
    check(output_size[i] > 0, "fold: output_size ({}, {}) must be positive", output_size[0],
          output_size[1]);
  ConvCall c;
  c.batch = x.size(0);
  c.in = x.size(1) / taps;
  c.size = detail::three(output_size, 1);
  c.kernel = detail::three(o.kernel, 1);
  c.stride = detail::three(o.stride, 1);
  c.padding = detail::three(o.padding, 0);
  c.dilation = detail::three(o.dilation, 1);
  detail::set_output_size("fold", c);
  check(c.out_plane() == x.size(2),
        "fold: an output of ({}, {}) with these options has {} x {} = {} windows, but x {} has {}",
        output_size[0], output_size[1], c.out_size[1], c.out_size[2], c.out_plane(), x.shape(),
        x.size(2));
  return from_columns(c, x);
}

}  // namespace tern
