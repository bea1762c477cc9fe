// Constructors of the convolution layers (shapes, initial values), and the output_padding that a
// wanted output size needs.
#include "tern/nn/conv.h"

#include <cmath>

#include "tern/nn/init.h"

namespace tern::nn {
namespace {

void check_groups(const char* layer, int64_t in, int64_t out, int64_t groups) {
  check(groups > 0 && in % groups == 0 && out % groups == 0,
        "{}: {} groups do not divide {} input and {} output channels", layer, groups, in, out);
}

Shape with_kernel(Shape shape, int64_t kernel) {
  shape.push_back(kernel);
  return shape;
}
template <size_t n>
Shape with_kernel(Shape shape, const SpatialSize<n>& kernel) {
  for (size_t i = 0; i < n; ++i) shape.push_back(kernel[i]);
  return shape;
}

/// Creates weight and bias with their initial values. `outputs` is the number of biases.
void start(const Shape& shape, int64_t outputs, Parameter& weight, Parameter& bias, Bias with_bias,
           Rng& rng) {
  weight = Parameter(empty(shape));
  int64_t fan = init::fans(shape).in;
  double bound = fan > 0 ? 1 / std::sqrt(static_cast<double>(fan)) : 0;
  init::uniform(weight, -bound, bound, rng);
  if (with_bias == Bias::no) return;
  bias = Parameter(empty({outputs}));
  init::uniform(bias, -bound, bound, rng);
}

int64_t axis_of(int64_t size, size_t) { return size; }
template <size_t n>
int64_t axis_of(const SpatialSize<n>& size, size_t i) {
  return size[i];
}
int64_t size_of(const std::array<int64_t, 1>& each, int64_t*) { return each[0]; }
template <size_t n>
SpatialSize<n> size_of(const std::array<int64_t, n>& each, SpatialSize<n>*) {
  return each;
}

/// The output_padding that gives these spatial sizes.
template <size_t n, class Size>
Size padding_for(const char* layer, const Tensor& x, const Tensor& w,
                 const ConvTransposeOptions<Size>& o, const Dims& output_size) {
  check(x.ndim() == static_cast<int>(n) + 2 && output_size.size() == static_cast<int>(n),
        "{}: output_size {} must give the {} spatial sizes, and the input must be (B, C, ...), got "
        "{}",
        layer, output_size, n, x.shape());
  std::array<int64_t, n> padding;
  for (size_t i = 0; i < n; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t stride = axis_of(o.stride, i), dilation = axis_of(o.dilation, i);
    const int64_t least = (x.size(axis + 2) - 1) * stride - 2 * axis_of(o.padding, i) +
                          dilation * (w.size(axis + 2) - 1) + 1;
    check(output_size[axis] >= least && output_size[axis] < least + std::max(stride, dilation),
          "{}: output_size {} is not possible; it must be from {} to {} on axis {}", layer,
          output_size, least, least + std::max(stride, dilation) - 1, axis);
    padding[i] = output_size[axis] - least;
  }
  return size_of(padding, static_cast<Size*>(nullptr));
}

}  // namespace

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel, Rng& rng, const Conv1dOptions& o,
               Bias with_bias)
    : options(o) {
  check_groups("Conv1d", in, out, o.groups);
  start(with_kernel({out, in / o.groups}, kernel), out, weight, bias, with_bias, rng);
}

Conv2d::Conv2d(int64_t in, int64_t out, Size2 kernel, Rng& rng, const Conv2dOptions& o,
               Bias with_bias)
    : options(o) {
  check_groups("Conv2d", in, out, o.groups);
  start(with_kernel({out, in / o.groups}, kernel), out, weight, bias, with_bias, rng);
}

Conv3d::Conv3d(int64_t in, int64_t out, Size3 kernel, Rng& rng, const Conv3dOptions& o,
               Bias with_bias)
    : options(o) {
  check_groups("Conv3d", in, out, o.groups);
  start(with_kernel({out, in / o.groups}, kernel), out, weight, bias, with_bias, rng);
}

ConvTranspose1d::ConvTranspose1d(int64_t in, int64_t out, int64_t kernel, Rng& rng,
                                 const ConvTranspose1dOptions& o, Bias with_bias)
    : options(o) {
  check_groups("ConvTranspose1d", in, out, o.groups);
  start(with_kernel({in, out / o.groups}, kernel), out, weight, bias, with_bias, rng);
}

Tensor ConvTranspose1d::with_weight(const Tensor& w, const Tensor& x,
                                    const Dims& output_size) const {
  ConvTranspose1dOptions o = options;
  if (!output_size.empty())
    o.output_padding = padding_for<1>("ConvTranspose1d", x, w, o, output_size);
  return conv_transpose1d(x, w, bias, o);
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Size2 kernel, Rng& rng,
                                 const ConvTranspose2dOptions& o, Bias with_bias)
    : options(o) {
  check_groups("ConvTranspose2d", in, out, o.groups);
  start(with_kernel({in, out / o.groups}, kernel), out, weight, bias, with_bias, rng);
}

Tensor ConvTranspose2d::with_weight(const Tensor& w, const Tensor& x,
                                    const Dims& output_size) const {
  ConvTranspose2dOptions o = options;
  if (!output_size.empty())
    o.output_padding = padding_for<2>("ConvTranspose2d", x, w, o, output_size);
  return conv_transpose2d(x, w, bias, o);
}

ConvTranspose3d::ConvTranspose3d(int64_t in, int64_t out, Size3 kernel, Rng& rng,
                                 const ConvTranspose3dOptions& o, Bias with_bias)
    : options(o) {
  check_groups("ConvTranspose3d", in, out, o.groups);
  start(with_kernel({in, out / o.groups}, kernel), out, weight, bias, with_bias, rng);
}

Tensor ConvTranspose3d::with_weight(const Tensor& w, const Tensor& x,
                                    const Dims& output_size) const {
  ConvTranspose3dOptions o = options;
  if (!output_size.empty())
    o.output_padding = padding_for<3>("ConvTranspose3d", x, w, o, output_size);
  return conv_transpose3d(x, w, bias, o);
}

}  // namespace tern::nn
