// Dropout layers and stochastic depth: checks of p and calls of the fused ops.
#include "tern/nn/dropout.h"

#include "tern/core/ops/fused.h"
#include "tern/core/ops/normalisation/residual.h"

namespace tern::nn {

RandomLayer::RandomLayer(const char* layer, double probability, Rng& source)
    : p(probability), rng(source.split()) {
  check(p >= 0 && p < 1, "{}: p must be in [0, 1), it is {}", layer, p);
}

Tensor Dropout::operator()(const Tensor& x) const {
  return training && p > 0 ? dropout(x, p, rng) : x;
}

Tensor Dropout::add(const Tensor& x, const Tensor& residual) const {
  return rate() > 0 ? dropout_add(x, residual, p, rng) : residual + x;
}

Tensor Dropout1d::operator()(const Tensor& x) const { return training ? dropout1d(x, p, rng) : x; }
Tensor Dropout2d::operator()(const Tensor& x) const { return training ? dropout2d(x, p, rng) : x; }
Tensor Dropout3d::operator()(const Tensor& x) const { return training ? dropout3d(x, p, rng) : x; }

Tensor DropPath::operator()(const Tensor& x) const {
  return training && p > 0 ? x * factors(x) : x;
}

// 0 or 1/(1-p) for every sample.
Tensor DropPath::factors(const Tensor& x) const {
  check(x.ndim() >= 1, "DropPath: needs an axis of samples, the shape is {}", x.shape());
  Shape samples = Shape::filled(x.ndim(), 1);
  samples[0] = x.size(0);
  return bernoulli(samples, 1 - p, rng, x.dtype()) * (1 / (1 - p));
}

Tensor DropPath::add(const Tensor& x, const Tensor& residual, const Tensor& scale) const {
  constexpr const char* kName = "drop_path";
  constexpr auto kOne = [](auto r, auto y, auto s) { return r + y * s; };
  if (training && p > 0) {
    const Tensor kept = factors(x);
    if (!scale.defined()) return fused(kName, kOne, residual, x, kept);
    auto both = [](auto r, auto y, auto s, auto k) { return r + y * s * k; };
    return fused(kName, both, residual, x, scale, kept);
  }
  return scale.defined() ? fused(kName, kOne, residual, x, scale) : residual + x;
}

}  // namespace tern::nn
