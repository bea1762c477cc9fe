// Constructors of the convolution layers (shapes, initial values), and the output_padding that a
// wanted output size needs.
#include "tern/nn/conv.h"

#include <cmath>
#include <tuple>

#include "tern/nn/init.h"

namespace tern::nn {
namespace {

constexpr std::tuple kConvs(&conv1d, &conv2d, &conv3d);
constexpr std::tuple kTransposes(&conv_transpose1d, &conv_transpose2d, &conv_transpose3d);

/// A size as numbers, one for each axis in space.
std::array<int64_t, 1> each_of(int64_t size) { return {size}; }
template <size_t n>
std::array<int64_t, n> each_of(const SpatialSize<n>& size) {
  return size;
}

template <class Size>
constexpr size_t kAxes = std::tuple_size_v<decltype(each_of(Size(0)))>;

void check_groups(const char* layer, size_t axes, int64_t in, int64_t out, int64_t groups) {
  check(groups > 0 && in % groups == 0 && out % groups == 0,
        "{}{}d: {} groups do not divide {} input and {} output channels", layer, axes, groups, in,
        out);
}

/// Creates weight and bias with their initial values. The weight's shape is `shape`, then the
/// kernel's sizes. `outputs` is the number of biases.
template <class Size>
void start(Shape shape, const Size& kernel, int64_t outputs, Parameter& weight, Parameter& bias,
           Bias with_bias, Rng& rng) {
  for (int64_t size : each_of(kernel)) shape.push_back(size);
  weight = Parameter(empty(shape));
  int64_t fan = init::fans(shape).in;
  double bound = fan > 0 ? 1 / std::sqrt(static_cast<double>(fan)) : 0;
  init::uniform(weight, -bound, bound, rng);
  if (with_bias == Bias::no) return;
  bias = Parameter(empty({outputs}));
  init::uniform(bias, -bound, bound, rng);
}

/// The output_padding that gives these spatial sizes.
template <class Size>
Size padding_for(const Tensor& x, const Tensor& w, const ConvTransposeOptions<Size>& o,
                 const Dims& output_size) {
  constexpr size_t n = kAxes<Size>;
  check(x.ndim() == static_cast<int>(n) + 2 && output_size.size() == static_cast<int>(n),
        "ConvTranspose{}d: output_size {} must give the {} spatial sizes, and the input must be "
        "(B, C, ...), got {}",
        n, output_size, n, x.shape());
  const auto strides = each_of(o.stride), dilations = each_of(o.dilation);
  auto padding = each_of(o.padding);
  for (size_t i = 0; i < n; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t least = (x.size(axis + 2) - 1) * strides[i] - 2 * padding[i] +
                          dilations[i] * (w.size(axis + 2) - 1) + 1;
    const int64_t most = least + std::max(strides[i], dilations[i]) - 1;
    check(output_size[axis] >= least && output_size[axis] <= most,
          "ConvTranspose{}d: output_size {} is not possible; it must be from {} to {} on axis {}",
          n, output_size, least, most, axis);
    padding[i] = output_size[axis] - least;
  }
  if constexpr (n == 1)
    return padding[0];
  else
    return padding;
}

}  // namespace

template <class Size>
Conv<Size>::Conv(int64_t in, int64_t out, Size kernel, Rng& rng, const ConvOptions<Size>& o,
                 Bias with_bias)
    : options(o) {
  check_groups("Conv", kAxes<Size>, in, out, o.groups);
  start({out, in / o.groups}, kernel, out, weight, bias, with_bias, rng);
}

template <class Size>
Tensor Conv<Size>::with_weight(const Tensor& w, const Tensor& x) const {
  return std::get<kAxes<Size> - 1>(kConvs)(x, w, bias, options);
}

template <class Size>
ConvTranspose<Size>::ConvTranspose(int64_t in, int64_t out, Size kernel, Rng& rng,
                                   const ConvTransposeOptions<Size>& o, Bias with_bias)
    : options(o) {
  check_groups("ConvTranspose", kAxes<Size>, in, out, o.groups);
  start({in, out / o.groups}, kernel, out, weight, bias, with_bias, rng);
}

template <class Size>
Tensor ConvTranspose<Size>::with_weight(const Tensor& w, const Tensor& x,
                                        const Dims& output_size) const {
  ConvTransposeOptions<Size> o = options;
  if (!output_size.empty()) o.output_padding = padding_for(x, w, o, output_size);
  return std::get<kAxes<Size> - 1>(kTransposes)(x, w, bias, o);
}

template struct Conv<int64_t>;
template struct Conv<Size2>;
template struct Conv<Size3>;
template struct ConvTranspose<int64_t>;
template struct ConvTranspose<Size2>;
template struct ConvTranspose<Size3>;

}  // namespace tern::nn
