// dropout1d, 2d and 3d: a dropout mask (N, C, 1, ...), broadcast over the spatial axes.
#include "tern/core/ops/convolution/conv_call.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/random/dropout.h"

namespace tern {
namespace {

Tensor drop_channels(const char* name, const Tensor& x, double p, Rng& rng, int axes) {
  Op op(name, x);
  detail::check_space(name, x, axes);
  detail::check_dropout(name, p, &rng);
  if (p == 0) return x;
  Shape channels = Dims::filled(x.ndim(), 1);
  channels[0] = x.size(0);
  channels[1] = x.size(1);
  return x * dropout(ones(channels, x.dtype()), p, rng);
}

}  // namespace

Tensor dropout1d(const Tensor& x, double p, Rng& rng) {
  return drop_channels("dropout1d", x, p, rng, 1);
}
Tensor dropout2d(const Tensor& x, double p, Rng& rng) {
  return drop_channels("dropout2d", x, p, rng, 2);
}
Tensor dropout3d(const Tensor& x, double p, Rng& rng) {
  return drop_channels("dropout3d", x, p, rng, 3);
}

}  // namespace tern
