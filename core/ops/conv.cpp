// Convolutions. Each of y(x, w), dx(dy, w) and dw(x, dy) is linear in both of its arguments, and
// the gradients of each are the other two: so they are three ops, and every order of derivative
// works. Patch embeddings and 1x1 kernels are matrix products and are written as such.
#include "tern/core/ops/conv.h"

#include <optional>

#include "tern/core/kernels/conv.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/einsum.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using kernels::Conv;

Shape input_shape(const Conv& c) { return {c.batch, c.in, c.height, c.width}; }
Shape weight_shape(const Conv& c) { return {c.out, c.in_group(), c.kernel[0], c.kernel[1]}; }
Shape output_shape(const Conv& c) { return {c.batch, c.out, c.out_height, c.out_width}; }

Tensor input_grad(const Conv& c, const Tensor& dy, const Tensor& w);
Tensor weight_grad(const Conv& c, const Tensor& x, const Tensor& dy);

// y = x * w + b
Tensor convolve(const Conv& c, const Tensor& x, const Tensor& w, const Tensor& b) {
  Op op("conv2d", x, w, b);
  Fresh y(output_shape(c), x.dtype());
  Tensor xc = x.detach().contiguous(), wc = w.detach().contiguous();
  Tensor bc = b.defined() ? b.detach().contiguous() : Tensor();
  dispatch_float(x.dtype(), "conv2d", [&]<class T>() {
    kernels::conv(c, xc.data<T>(), wc.data<T>(), bc.defined() ? bc.data<T>() : nullptr,
                  y.data<T>());
  });
  Tensor none;
  auto vjp = [c, x = save(w.requires_grad() ? x : none), w = save(x.requires_grad() ? w : none)](
                 const Tensor& dy, const Wants& wants) {
    Gradients g(3);
    if (wants[0]) g[0] = input_grad(c, dy, w.get());
    if (wants[1]) g[1] = weight_grad(c, x.get(), dy);
    if (wants[2]) g[2] = sum(dy, {0, 2, 3});
    return g;
  };
  return op.record(y, std::move(vjp));
}

// dx(dy, w):  d(dy) = ddx * w,  dw = weight_grad(ddx, dy)
Tensor input_grad(const Conv& c, const Tensor& dy, const Tensor& w) {
  Op op("conv2d_input_grad", dy, w);
  Fresh dx(input_shape(c), dy.dtype());
  Tensor d = dy.detach().contiguous(), wc = w.detach().contiguous();
  dispatch_float(dy.dtype(), "conv2d", [&]<class T>() {
    kernels::conv_input_grad(c, d.data<T>(), wc.data<T>(), dx.data<T>());
  });
  auto vjp = [c, dy = save(dy), w = save(w)](const Tensor& ddx, const Wants& wants) {
    Gradients g(2);
    if (wants[0]) g[0] = convolve(c, ddx, w.get(), {});
    if (wants[1]) g[1] = weight_grad(c, ddx, dy.get());
    return g;
  };
  return op.record(dx, std::move(vjp));
}

// dw(x, dy):  dx = input_grad(dy, ddw),  d(dy) = x * ddw
Tensor weight_grad(const Conv& c, const Tensor& x, const Tensor& dy) {
  Op op("conv2d_weight_grad", x, dy);
  Fresh dw(weight_shape(c), x.dtype());
  Tensor xc = x.detach().contiguous(), d = dy.detach().contiguous();
  dispatch_float(x.dtype(), "conv2d", [&]<class T>() {
    kernels::conv_weight_grad(c, xc.data<T>(), d.data<T>(), dw.data<T>());
  });
  auto vjp = [c, x = save(x), dy = save(dy)](const Tensor& ddw, const Wants& wants) {
    Gradients g(2);
    if (wants[0]) g[0] = input_grad(c, dy.get(), ddw);
    if (wants[1]) g[1] = convolve(c, x.get(), ddw, {});
    return g;
  };
  return op.record(dw, std::move(vjp));
}

bool patches(const Conv& c) {
  return c.kernel == c.stride && c.padding == std::array<int64_t, 2>{0, 0} &&
         c.dilation == std::array<int64_t, 2>{1, 1} && c.groups == 1;
}

Tensor from_patches(const Conv& c, const Tensor& patches);

// x (batch, in, H, W) -> (batch, patches, in * kernel); its gradient is from_patches.
Tensor to_patches(const Conv& c, const Tensor& x) {
  Op op("to_patches", x);
  Fresh y(Shape{c.batch, c.out_plane(), c.in * c.taps()}, x.dtype());
  Tensor xc = x.detach().contiguous();
  dispatch_float(x.dtype(), "conv2d",
                 [&]<class T>() { kernels::gather_patches(c, xc.data<T>(), y.data<T>()); });
  return op.record(y, [c](const Tensor& dy) { return from_patches(c, dy); });
}

Tensor from_patches(const Conv& c, const Tensor& patches) {
  Op op("from_patches", patches);
  Fresh x(input_shape(c), patches.dtype());
  Tensor p = patches.detach().contiguous();
  dispatch_float(patches.dtype(), "conv2d",
                 [&]<class T>() { kernels::scatter_patches(c, p.data<T>(), x.data<T>()); });
  return op.record(x, [c](const Tensor& d) { return to_patches(c, d); });
}

// Windows that do not overlap: one gather of the image to patches, one product. The result lies
// patch by patch and is seen as (batch, out, H', W'), so that the flatten(2).transpose(1, 2) of a
// patch embedding is without gaps.
Tensor convolve_patches(const Conv& c, const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = linear(to_patches(c, x), reshape(w, {c.out, c.in * c.taps()}), b);
  return reshape(transpose(y, 1, 2), output_shape(c));
}

// 1x1: y (out, H W) = W (out, in) x (in, H W) for every image.
Tensor convolve_points(const Conv& c, const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = matmul(reshape(w, {c.out, c.in}), reshape(x, {c.batch, c.in, c.plane()}));
  if (b.defined()) y = y + unsqueeze(b, 1);
  return reshape(y, output_shape(c));
}

int64_t output_size(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                    int64_t dilation) {
  check(kernel > 0 && stride > 0 && padding >= 0 && dilation > 0,
        "{}: kernel {}, stride {} and dilation {} must be positive, padding {} not negative", op,
        kernel, stride, dilation, padding);
  int64_t padded = checked_sum(op, size, checked_product(op, 2, padding));
  int64_t room = padded - checked_product(op, dilation, kernel - 1) - 1;
  check(room >= 0, "{}: a kernel of {} (dilation {}) is larger than the input {} with padding {}",
        op, kernel, dilation, size, padding);
  return room / stride + 1;
}

Conv geometry(const char* op, const Tensor& x, const Conv2dOptions& options, int64_t out,
              Size2 kernel) {
  Conv c;
  c.batch = x.size(0);
  c.in = x.size(1);
  c.height = x.size(2);
  c.width = x.size(3);
  c.out = out;
  c.kernel = kernel;
  c.stride = options.stride;
  c.padding = options.padding;
  c.dilation = options.dilation;
  c.groups = options.groups;
  auto size = [&](int64_t length, size_t i) {
    return output_size(op, length, kernel[i], c.stride[i], c.padding[i], c.dilation[i]);
  };
  c.out_height = size(c.height, 0);
  c.out_width = size(c.width, 1);
  return c;
}

void check_weight(const char* op, const Tensor& x, const Tensor& w, const Tensor& b,
                  int64_t groups) {
  check(groups > 0 && w.size(1) > 0 && x.size(1) == checked_product(op, w.size(1), groups),
        "{}: the input {} has {} channels, but the weight {} with groups {} takes {} each", op,
        x.shape(), x.size(1), w.shape(), groups, w.size(1));
  check(w.size(0) > 0 && w.size(0) % groups == 0, "{}: {} outputs do not divide into {} groups", op,
        w.size(0), groups);
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "{}: the bias must be ({},), got {}", op,
        w.size(0), b.defined() ? b.shape() : Shape());
  check(x.dtype() == w.dtype() && (!b.defined() || b.dtype() == x.dtype()),
        "{}: the input is {}, the weight {}; convert one with .to()", op, x.dtype(), w.dtype());
}

Tensor checked_conv2d(const char* op, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options) {
  Op scope(op, x, w, b);
  check_weight(op, x, w, b, options.groups);
  const Conv c = geometry(op, x, options, w.size(0), {w.size(2), w.size(3)});
  const bool one = c.taps() == 1 && c.groups == 1;
  if (one && patches(c)) return convolve_points(c, x, w, b);
  if (patches(c)) return convolve_patches(c, x, w, b);
  return convolve(c, x, w, b);
}

Conv2dOptions pooling(const Pool2dOptions& options) {
  auto stride = [&](size_t i) {
    return options.stride[i] == 0 ? options.kernel[i] : options.stride[i];
  };
  return {.stride = {stride(0), stride(1)}, .padding = options.padding};
}

Conv pooling_geometry(const char* op, const Tensor& x, const Pool2dOptions& options) {
  check(x.ndim() == 4, "{}: the input must be (batch, channels, height, width), got {}", op,
        x.shape());
  check(x.size(2) > 0 && x.size(3) > 0, "{}: the images of {} have no pixels", op, x.shape());
  for (size_t i = 0; i < 2; ++i)
    check(options.padding[i] <= options.kernel[i] / 2,
          "{}: padding {} is more than half of the kernel {}", op, options.padding[i],
          options.kernel[i]);
  Conv c = geometry(op, x, pooling(options), x.size(1), options.kernel);
  c.groups = c.in;
  return c;
}

/// Windows of `size` elements `dilation` apart, every `stride`: a new last axis.
Tensor windows(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  return slice(unfold(x, axis, dilation * (size - 1) + 1, stride), -1, {}, {}, dilation);
}

}  // namespace

// Every window of every channel, times the weights, summed.
Tensor composed::conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  Tensor p = pad(x, {o.padding[1], o.padding[1], o.padding[0], o.padding[0]});
  p = windows(p, 2, w.size(2), o.stride[0], o.dilation[0]);
  p = windows(p, 3, w.size(3), o.stride[1], o.dilation[1]);  // (batch, in, H', W', KH, KW)
  Tensor y = einsum("b g i y x h w, g o i h w -> b g o y x",
                    {unflatten(p, 1, {o.groups, -1}), unflatten(w, 0, {o.groups, -1})});
  y = flatten(y, 1, 2);
  return b.defined() ? y + reshape(b, {b.numel(), 1, 1}) : y;
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options) {
  check_defined("conv2d", x, w);
  check(x.ndim() == 4 && w.ndim() == 4,
        "conv2d: needs x (batch, in, height, width) and w (out, in / groups, kernel height, "
        "kernel width), got {} and {}",
        x.shape(), w.shape());
  return checked_conv2d("conv2d", x, w, b, options);
}

Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv1dOptions& options) {
  check_defined("conv1d", x, w);
  check(x.ndim() == 3 && w.ndim() == 3,
        "conv1d: needs x (batch, in, length) and w (out, in / groups, kernel), got {} and {}",
        x.shape(), w.shape());
  Conv2dOptions o;
  o.stride = {1, options.stride};
  o.padding = {0, options.padding};
  o.dilation = {1, options.dilation};
  o.groups = options.groups;
  return squeeze(checked_conv2d("conv1d", unsqueeze(x, 2), unsqueeze(w, 2), b, o), 2);
}

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  check_defined("max_pool2d", x);
  const Conv c = pooling_geometry("max_pool2d", x, options);
  Op op("max_pool2d", x);
  Fresh positions(Shape{c.batch, c.in, c.out_plane()}, DType::i64);
  Tensor xc = x.detach().contiguous();
  dispatch_float(x.dtype(), "max_pool2d", [&]<class T>() {
    kernels::max_pool_positions(c, xc.data<T>(), positions.data<int64_t>());
  });
  Tensor best = gather(reshape(x, {c.batch, c.in, c.plane()}), 2, not_differentiable(positions));
  return reshape(best, output_shape(c));
}

// A convolution of each channel with a kernel of ones.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  check_defined("avg_pool2d", x);
  const Conv c = pooling_geometry("avg_pool2d", x, options);
  check(is_float(x.dtype()), "avg_pool2d: needs a floating tensor, got {}; convert with .to()",
        x.dtype());
  Tensor y = convolve(c, x, ones(weight_shape(c), x.dtype()), {});
  if (options.count_include_pad || (c.padding[0] == 0 && c.padding[1] == 0))
    return y / static_cast<double>(c.taps());
  Tensor one = ones({1, 1, c.height, c.width}, x.dtype());
  return y / avg_pool2d(one, {options.kernel, options.stride, options.padding}) /
         static_cast<double>(c.taps());
}

}  // namespace tern
