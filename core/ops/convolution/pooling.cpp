// Max pooling finds positions and gathers them, which gives the gradient. Average pooling is a
// convolution with ones. Adaptive averages are linear maps, axis by axis.
#include "tern/core/ops/convolution/pooling.h"

#include "tern/core/kernels/convolution/pooling.h"
#include "tern/core/ops/convolution/axis_map.h"
#include "tern/core/ops/convolution/conv_call.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::ConvCall;

constexpr const char* kMaxPool[] = {"max_pool1d", "max_pool2d", "max_pool3d"};
constexpr const char* kAvgPool[] = {"avg_pool1d", "avg_pool2d", "avg_pool3d"};
constexpr const char* kAdaptiveMax[] = {"adaptive_max_pool1d", "adaptive_max_pool2d",
                                        "adaptive_max_pool3d"};
constexpr const char* kAdaptiveAvg[] = {"adaptive_avg_pool1d", "adaptive_avg_pool2d",
                                        "adaptive_avg_pool3d"};

void check_pixels(const char* op, const Tensor& x) {
  for (int a = 2; a < x.ndim(); ++a)
    check(x.size(a) > 0, "{}: the planes of {} have no elements", op, x.shape());
}

/// The windows, with every channel as a group of its own.
template <class Size>
ConvCall geometry(const char* op, const Tensor& x, Size kernel, Size stride, Size padding,
                  Size dilation, bool ceil_mode) {
  detail::check_space(op, x, detail::kAxes<Size>);
  check_pixels(op, x);
  ConvCall c = detail::windows_of(x, kernel, stride, padding, dilation);
  for (size_t i = 0; i < 3; ++i) {
    if (c.stride[i] == 0) c.stride[i] = c.kernel[i];
    check(c.kernel[i] > 0 && c.dilation[i] > 0, "{}: kernel {} and dilation {} must be positive",
          op, c.kernel[i], c.dilation[i]);
    const int64_t seen = checked_sum(op, checked_product(op, c.kernel[i] - 1, c.dilation[i]), 1);
    check(c.padding[i] <= seen / 2, "{}: padding {} is more than half of the kernel {}", op,
          c.padding[i], seen);
  }
  c.out = c.groups = c.in;
  c.ceil_mode = ceil_mode;
  detail::set_output_size(op, c);
  return c;
}

// With dilation, a window that begins in the padding may skip all elements of a short axis.
void check_windows(const char* op, const ConvCall& c) {
  for (size_t i = 0; i < 3; ++i)
    for (int64_t w = 0; w < c.out_size[i] && w * c.stride[i] < c.padding[i]; ++w) {
      const int64_t at = w * c.stride[i] - c.padding[i];
      const int64_t k = (-at + c.dilation[i] - 1) / c.dilation[i];
      check(k < c.kernel[i] && at + k * c.dilation[i] < c.size[i],
            "{}: window {} of an axis of {} contains only padding (kernel {}, dilation {}, padding "
            "{}); use less padding or dilation",
            op, w, c.size[i], c.kernel[i], c.dilation[i], c.padding[i]);
    }
}

/// The elements at `positions` (B, C, windows) of the planes of x.
ValuesIndices elements_at(const Tensor& x, Fresh positions, const Shape& shape) {
  Tensor at = not_differentiable(std::move(positions));
  Tensor values = gather(flatten(x, 2), 2, at);
  return {reshape(values, shape), reshape(at, shape)};
}

template <class Size>
ValuesIndices max_pool(const Tensor& x, const MaxPoolOptions<Size>& o) {
  const char* name = kMaxPool[detail::kAxes<Size> - 1];
  check_defined(name, x);
  Op op(name, x);
  const ConvCall c = geometry(name, x, o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
  if (x.numel() > 0) check_windows(name, c);
  Fresh positions(Shape{c.batch, c.in, c.out_plane()}, DType::i64);
  Tensor xc = x.detach().contiguous();
  dispatch_float(x.dtype(), name, [&]<class T>() {
    kernels::max_pool_positions(c, xc.data<T>(), positions.data<int64_t>());
  });
  ValuesIndices y = elements_at(x, positions, c.output_shape());
  c.note(op);
  op.note("result", y.values);
  return y;
}

/// The number of elements of window i along an axis that the mean counts.
double counted(const ConvCall& c, size_t axis, int64_t i, bool include_pad) {
  const int64_t pad = c.padding[axis], size = c.size[axis];
  const int64_t begin = i * c.stride[axis] - pad;
  const int64_t end = std::min(begin + c.kernel[axis], size + pad);
  const int64_t inside = std::min(end, size) - std::max<int64_t>(begin, 0);
  return static_cast<double>(include_pad ? end - begin : inside);
}

/// (1, 1, out...): the divisor of each window's sum.
Tensor divisors(const ConvCall& c, bool include_pad, DType dtype) {
  Tensor all;
  for (int a = 0; a < c.axes; ++a) {
    const size_t axis = static_cast<size_t>(3 - c.axes + a);
    std::vector<double> counts;
    for (int64_t i = 0; i < c.out_size[axis]; ++i)
      counts.push_back(counted(c, axis, i, include_pad));
    Shape shape = Dims::filled(c.axes - a, 1);
    shape[0] = c.out_size[axis];
    Tensor along = tensor(counts, shape).to(dtype);
    all = all.defined() ? all * along : along;
  }
  return all;
}

/// Whether every window counts all of its kernel.
bool counts_all(const ConvCall& c, bool include_pad) {
  bool all = true;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t last = c.out_size[i] - 1;
    const auto kernel = static_cast<double>(c.kernel[i]);
    all &= (include_pad || c.padding[i] == 0) && counted(c, i, last, include_pad) == kernel;
  }
  return all;
}

// Convolves each channel with a kernel of ones.
template <class Size>
Tensor avg_pool(const Tensor& x, const AvgPoolOptions<Size>& o) {
  const char* name = kAvgPool[detail::kAxes<Size> - 1];
  check_defined(name, x);
  Op op(name, x);
  const ConvCall c = geometry(name, x, o.kernel, o.stride, o.padding, Size(1), o.ceil_mode);
  check(!o.divisor_override || *o.divisor_override != 0, "{}: divisor_override must not be 0",
        name);
  if (c.in == 0) return reshape(x, c.output_shape());
  Tensor sums = detail::convolve(c, x, ones(c.weight_shape(), x.dtype()), {});
  if (o.divisor_override) return sums / static_cast<double>(*o.divisor_override);
  if (x.numel() == 0 || counts_all(c, o.count_include_pad))
    return sums / static_cast<double>(c.taps());
  return sums / divisors(c, o.count_include_pad, x.dtype());
}

/// The sizes of input and output.
template <size_t n>
kernels::AdaptivePool adaptive(const char* op, const Tensor& x, const OutputSize<n>& size) {
  detail::check_space(op, x, static_cast<int>(n));
  check_pixels(op, x);
  kernels::AdaptivePool p{{1, 1, 1}, {1, 1, 1}};
  for (size_t i = 0; i < n; ++i) {
    const int64_t in = x.size(static_cast<int64_t>(i) + 2), out = size[i].value_or(in);
    check(out >= 0, "{}: the size of the output must not be negative, got {}", op, out);
    checked_product(op, in, checked_sum(op, out, 1));
    p.size[3 - n + i] = in;
    p.out_size[3 - n + i] = out;
  }
  return p;
}

template <size_t n>
Shape shape_of(const Tensor& x, const kernels::AdaptivePool& p) {
  Shape shape{x.size(0), x.size(1)};
  for (size_t i = 3 - n; i < 3; ++i) shape.push_back(p.out_size[i]);
  return shape;
}

template <size_t n>
ValuesIndices adaptive_max(const Tensor& x, const OutputSize<n>& size) {
  const char* name = kAdaptiveMax[n - 1];
  check_defined(name, x);
  Op op(name, x);
  const kernels::AdaptivePool p = adaptive(name, x, size);
  const Shape shape = shape_of<n>(x, p);
  Fresh positions(Shape{x.size(0), x.size(1), p.out_plane()}, DType::i64);
  Tensor xc = x.detach().contiguous();
  if (numel(shape) > 0)
    dispatch_float(x.dtype(), name, [&]<class T>() {
      kernels::adaptive_max_positions(p, x.size(0) * x.size(1), xc.data<T>(),
                                      positions.data<int64_t>());
    });
  ValuesIndices y = elements_at(x, positions, shape);
  op.note("sizes", Shape(shape.begin() + 2, shape.end()), "result", y.values);
  return y;
}

// The mean of a box is the mean of the means along each axis.
template <size_t n>
Tensor adaptive_avg(const Tensor& x, const OutputSize<n>& size) {
  const char* name = kAdaptiveAvg[n - 1];
  check_defined(name, x);
  Op op(name, x);
  const kernels::AdaptivePool p = adaptive(name, x, size);
  if (p.out_plane() == 1) {
    Dims space;
    for (size_t i = 0; i < n; ++i) space.push_back(static_cast<int64_t>(i) + 2);
    return mean(x, space, true);
  }
  Tensor y = x;
  for (size_t i = 0; i < n; ++i) {
    const size_t axis = 3 - n + i;
    if (p.size[axis] != p.out_size[axis])
      y = detail::map_axis(name, y, static_cast<int>(i) + 2, p.out_size[axis],
                           [&] { return detail::adaptive_mean(p.size[axis], p.out_size[axis]); });
  }
  return y.ref() == x.ref() ? clone(x) : y;
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const MaxPool1dOptions& o) { return max_pool(x, o).values; }
Tensor max_pool2d(const Tensor& x, const MaxPool2dOptions& o) { return max_pool(x, o).values; }
Tensor max_pool3d(const Tensor& x, const MaxPool3dOptions& o) { return max_pool(x, o).values; }

ValuesIndices max_pool1d_with_indices(const Tensor& x, const MaxPool1dOptions& o) {
  return max_pool(x, o);
}
ValuesIndices max_pool2d_with_indices(const Tensor& x, const MaxPool2dOptions& o) {
  return max_pool(x, o);
}
ValuesIndices max_pool3d_with_indices(const Tensor& x, const MaxPool3dOptions& o) {
  return max_pool(x, o);
}

Tensor avg_pool1d(const Tensor& x, const AvgPool1dOptions& o) { return avg_pool(x, o); }
Tensor avg_pool2d(const Tensor& x, const AvgPool2dOptions& o) { return avg_pool(x, o); }
Tensor avg_pool3d(const Tensor& x, const AvgPool3dOptions& o) { return avg_pool(x, o); }

Tensor adaptive_avg_pool1d(const Tensor& x, OutputSize<1> size) { return adaptive_avg(x, size); }
Tensor adaptive_avg_pool2d(const Tensor& x, OutputSize<2> size) { return adaptive_avg(x, size); }
Tensor adaptive_avg_pool3d(const Tensor& x, OutputSize<3> size) { return adaptive_avg(x, size); }

ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, OutputSize<1> size) {
  return adaptive_max(x, size);
}
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, OutputSize<2> size) {
  return adaptive_max(x, size);
}
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, OutputSize<3> size) {
  return adaptive_max(x, size);
}

Tensor adaptive_max_pool1d(const Tensor& x, OutputSize<1> s) { return adaptive_max(x, s).values; }
Tensor adaptive_max_pool2d(const Tensor& x, OutputSize<2> s) { return adaptive_max(x, s).values; }
Tensor adaptive_max_pool3d(const Tensor& x, OutputSize<3> s) { return adaptive_max(x, s).values; }

}  // namespace tern
