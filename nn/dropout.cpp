#include "tern/nn/dropout.h"

#include "tern/core/ops/ops.h"

namespace tern::nn {
namespace {

double checked(const char* layer, double p) {
  check(p >= 0 && p < 1, "{}: p must be in [0, 1), it is {}", layer, p);
  return p;
}

}  // namespace

Dropout::Dropout(double probability, Rng& source)
    : p(checked("Dropout", probability)), rng(source.split()) {}

Tensor Dropout::operator()(const Tensor& x) const {
  return training && p > 0 ? dropout(x, p, rng) : x;
}

DropPath::DropPath(double probability, Rng& source)
    : p(checked("DropPath", probability)), rng(source.split()) {}

Tensor DropPath::operator()(const Tensor& x) const {
  if (!training || p == 0) return x;
  check(x.ndim() >= 1, "DropPath: needs an axis of samples, the shape is {}", x.shape());
  Shape samples = Shape::filled(x.ndim(), 1);
  samples[0] = x.size(0);
  return x * (bernoulli(samples, 1 - p, rng, x.dtype()) * (1 / (1 - p)));
}

}  // namespace tern::nn
