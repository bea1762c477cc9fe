// Convolutions. y(x, w), dx(dy, w) and dw(x, dy) are each linear in both arguments, and the
// gradients of each are the other two. So they are three ops, and derivatives of any order work.
// Patch embeddings are computed as matrix products.
#include "tern/core/ops/convolution/conv.h"

#include "tern/core/kernels/convolution/conv.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/convolution/conv_call.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/products/saved_operand.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::ConvCall;

constexpr const char* kConvNames[] = {"conv1d", "conv2d", "conv3d"};
constexpr const char* kInputGrad[] = {"conv1d_input_grad", "conv2d_input_grad",
                                      "conv3d_input_grad"};
constexpr const char* kWeightGrad[] = {"conv1d_weight_grad", "conv2d_weight_grad",
                                       "conv3d_weight_grad"};

const char* name_of(const ConvCall& c, const char* const (&names)[3]) { return names[c.axes - 1]; }

// (B, O, space...): all axes except the channels.
Dims but_channels(const ConvCall& c) {
  Dims axes(0);
  for (int a = 0; a < c.axes; ++a) axes.push_back(2 + a);
  return axes;
}

// Keeps x for the gradient of w. Depthwise kernels need it unrounded.
SavedOperand save_windows(const ConvCall& c, const Tensor& x) {
  return c.depthwise() ? SavedOperand(save(x)) : save_operand(x);
}

// dw(x, dy):  dx = input_grad(dy, ddw),  d(dy) = x * ddw
Tensor weight_grad(const ConvCall& c, const Operand& input, const Tensor& dy) {
  const Tensor x = input.tensor();  // undefined if rounded; then nothing is recorded
  Op op(name_of(c, kWeightGrad), x, dy);
  Fresh dw(c.weight_shape(), dy.dtype());
  Operand xc = input;
  if (!input.rounded())
    xc = x.detach().contiguous();
  else if (!input.layout().is_contiguous())
    xc = input.widened().contiguous();
  Tensor d = dy.detach().contiguous();
  dispatch_float(dy.dtype(), name_of(c, kConvNames), [&]<class T>() {
    kernels::conv_weight_grad(c, xc.elements<T>(), d.data<T>(), dw.data<T>());
  });
  auto vjp = [c, x = save(x), dy = save(dy)](const Tensor& ddw, const Wants& wants) {
    Gradients g(2);
    if (wants[0]) g[0] = detail::conv_input_grad(c, dy.get(), ddw);
    if (wants[1]) g[1] = detail::convolve(c, x.get(), ddw, {});
    return g;
  };
  return op.record(dw, std::move(vjp));
}

// Windows that do not overlap: gathers the image into patches, then one product. The result is
// stored patch by patch and viewed as (batch, out, H', W'), so that a patch embedding's
// flatten(2).transpose(1, 2) is contiguous.
Tensor convolve_patches(const ConvCall& c, const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = linear(detail::to_patches(c, x), reshape(w, {c.out, c.in * c.taps()}), b);
  return reshape(transpose(y, 1, 2), c.output_shape());
}

void check_weight(const char* op, const Tensor& x, const Tensor& w, const Tensor& b,
                  int64_t groups) {
  const int64_t each = w.size(1), last = x.size(-1);  // a huge `groups` must not overflow here
  const bool channels_last = each > 0 && last % each == 0 && last / each == groups;
  check(groups > 0 && each > 0 && x.size(1) == checked_product(op, each, groups),
        "{}: the input {} has {} channels, but the weight {} with groups {} takes {} each{}", op,
        x.shape(), x.size(1), w.shape(), groups, each,
        channels_last ? "; channels are the second axis: move them by permute()" : "");
  check(w.size(0) > 0 && w.size(0) % groups == 0, "{}: {} outputs cannot be split into {} groups",
        op, w.size(0), groups);
  check(!b.defined() || b.shape() == Shape{w.size(0)}, "{}: the bias must be ({},), got {}", op,
        w.size(0), b.defined() ? b.shape() : Shape());
  check(x.dtype() == w.dtype() && (!b.defined() || b.dtype() == x.dtype()),
        "{}: the input is {}, the weight {}; convert one with .to()", op, x.dtype(), w.dtype());
}

template <class Size>
Size kernel_of(const Tensor& w) {
  if constexpr (detail::kAxes<Size> == 1) {
    return w.size(2);
  } else {
    std::array<int64_t, detail::kAxes<Size>> sizes;
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = w.size(static_cast<int64_t>(i) + 2);
    return sizes;
  }
}

// {left, right} of each spatial axis, last axis first, in pad()'s order.
template <class Size>
Dims pads_of(const char* op, const Tensor& w, const ConvOptions<Size>& o) {
  constexpr size_t kAxes = static_cast<size_t>(detail::kAxes<Size>);
  const auto padding = detail::three(o.padding, 0), stride = detail::three(o.stride, 1);
  const auto dilation = detail::three(o.dilation, 1);
  Dims pads;
  for (size_t i = 3; i-- > 3 - kAxes;) {
    check(padding[i] >= 0, "{}: padding {} must not be negative", op, padding[i]);
    if (!o.same_padding) {
      pads.push_back(padding[i]);
      pads.push_back(padding[i]);
      continue;
    }
    check(stride[i] == 1 && padding[i] == 0,
          "{}: same_padding needs stride 1 and padding 0, got {} and {}", op, stride[i],
          padding[i]);
    check(dilation[i] > 0, "{}: dilation {} must be positive", op, dilation[i]);
    const int64_t kernel = w.size(static_cast<int64_t>(i + kAxes) - 1);
    const int64_t all = checked_product(op, dilation[i], std::max<int64_t>(kernel - 1, 0));
    pads.push_back(all / 2);
    pads.push_back(all - all / 2);
  }
  return pads;
}

void check_ranks(const char* name, int axes, const Tensor& x, const Tensor& w) {
  constexpr const char *kSpace[] = {"length", "height, width", "depth, height, width"},
                       *kKernel[] = {"kernel", "kernel height, kernel width",
                                     "kernel depth, kernel height, kernel width"};
  check(x.ndim() == axes + 2 && w.ndim() == axes + 2,
        "{}: needs x (batch, in, {}) and w (out, in / groups, {}), got {} and {}{}", name,
        kSpace[axes - 1], kKernel[axes - 1], x.shape(), w.shape(),
        x.ndim() == axes + 1 ? "; unsqueeze(x, 0) makes a batch of one" : "");
}

template <class Size>
Tensor any_conv(const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions<Size>& o) {
  const char* name = kConvNames[detail::kAxes<Size> - 1];
  Op scope(name, x, w, b);
  check_defined(name, x, w);
  check_ranks(name, detail::kAxes<Size>, x, w);
  check_weight(name, x, w, b, o.groups);
  if (o.padding_mode != PaddingMode::zeros || o.same_padding) {
    const Tensor padded = pad(x, pads_of(name, w, o), o.padding_mode);
    return any_conv(padded, w, b, ConvOptions<Size>{o.stride, 0, o.dilation, o.groups});
  }
  ConvCall c = detail::windows_of(x, kernel_of<Size>(w), o.stride, o.padding, o.dilation);
  c.out = w.size(0);
  c.groups = o.groups;
  detail::set_output_size(name, c);
  const bool patches = detail::are_patches(c) && c.groups == 1 && c.taps() > 1;
  if (patches && !detail::composing()) return convolve_patches(c, x, w, b);
  return detail::convolve(c, x, w, b);
}

/// Windows of `size` elements `dilation` apart, every `stride`, as a new last axis.
Tensor windows(const Tensor& x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  return slice(unfold(x, axis, dilation * (size - 1) + 1, stride), -1, {}, {}, dilation);
}

}  // namespace

namespace detail {

// y = x * w + b
Tensor convolve(const ConvCall& c, const Tensor& x, const Tensor& w, const Tensor& b) {
  Op op(name_of(c, kConvNames), x, w, b);
  c.note(op);
  op.note("groups", c.groups);
  Fresh y(c.output_shape(), x.dtype());
  Tensor xc = x.detach().contiguous(), wc = w.detach().contiguous();
  Tensor bc = b.defined() ? b.detach().contiguous() : Tensor();
  dispatch_float(x.dtype(), name_of(c, kConvNames), [&]<class T>() {
    kernels::conv(c, xc.data<T>(), wc.data<T>(), bc.defined() ? bc.data<T>() : nullptr,
                  y.data<T>());
  });
  Tensor none;
  auto vjp = [c, x = save_windows(c, w.requires_grad() ? x : none),
              w = save(x.requires_grad() ? w : none)](const Tensor& dy, const Wants& wants) {
    Gradients g(3);
    if (wants[0]) g[0] = conv_input_grad(c, dy, w.get());
    if (wants[1]) g[1] = weight_grad(c, x.operand(), dy);
    if (wants[2]) g[2] = sum(dy, but_channels(c));
    return g;
  };
  return op.record(y, std::move(vjp));
}

// dx(dy, w):  d(dy) = ddx * w,  dw = weight_grad(ddx, dy)
Tensor conv_input_grad(const ConvCall& c, const Tensor& dy, const Tensor& w) {
  Op op(name_of(c, kInputGrad), dy, w);
  c.note(op);
  op.note("groups", c.groups);
  Fresh dx(c.input_shape(), dy.dtype());
  Tensor d = dy.detach().contiguous(), wc = w.detach().contiguous();
  dispatch_float(dy.dtype(), name_of(c, kConvNames), [&]<class T>() {
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

}  // namespace detail

// Multiplies the windows of all channels by the weights, then sums.
Tensor composed::conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& o) {
  Tensor p = pad(x, {o.padding[1], o.padding[1], o.padding[0], o.padding[0]}, o.padding_mode);
  p = windows(p, 2, w.size(2), o.stride[0], o.dilation[0]);
  p = windows(p, 3, w.size(3), o.stride[1], o.dilation[1]);  // (batch, in, H', W', KH, KW)
  Tensor y = einsum("b g i y x h w, g o i h w -> b g o y x",
                    {unflatten(p, 1, {o.groups, -1}), unflatten(w, 0, {o.groups, -1})});
  y = flatten(y, 1, 2);
  return b.defined() ? y + reshape(b, {b.numel(), 1, 1}) : y;
}

Tensor conv1d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv1dOptions& options) {
  return any_conv(x, w, b, options);
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options) {
  return any_conv(x, w, b, options);
}

Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv3dOptions& options) {
  return any_conv(x, w, b, options);
}

}  // namespace tern
