// Random tensors: all numbers come from the generator that is passed.
#include "tern/core/base/rng.h"
#include "tern/core/kernels/create.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern {

Tensor randn(const Shape& shape, Rng& rng, DType dtype) {
  Op op("randn");
  Fresh y(shape, dtype);
  dispatch_float(dtype, "randn", [&]<class T>() { rng.fill_normal(y.data<T>(), y.numel()); });
  return op.not_differentiable(y);
}

Tensor uniform(const Shape& shape, double low, double high, Rng& rng, DType dtype) {
  Op op("uniform");
  check(low <= high, "uniform: low {} is above high {}", low, high);
  Fresh y(shape, dtype);
  dispatch_float(dtype, "uniform",
                 [&]<class T>() { rng.fill_uniform(y.data<T>(), y.numel(), low, high); });
  return op.not_differentiable(y);
}

Tensor bernoulli(const Shape& shape, double p, Rng& rng, DType dtype) {
  Op op("bernoulli");
  check(p >= 0 && p <= 1, "bernoulli: the probability is {}, outside [0, 1]", p);
  Fresh y(shape, DType::u8);
  rng.fill_bernoulli(y.data<uint8_t>(), y.numel(), p);
  return op.not_differentiable(y).to(dtype);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, Rng& rng) {
  Op op("randint");
  check(low < high, "randint: [{}, {}) is empty", low, high);
  int64_t width = 0;
  check(!__builtin_sub_overflow(high, low, &width),
        "randint: [{}, {}) is wider than 63 bits; draw from a narrower range", low, high);
  Fresh y(shape, DType::i64);
  kernels::random_integers(y.data<int64_t>(), y.numel(), low, high, rng);
  return op.not_differentiable(y);
}

Tensor randperm(int64_t n, Rng& rng) {
  Op op("randperm");
  Fresh y(Shape{n}, DType::i64);
  kernels::random_permutation(y.data<int64_t>(), n, rng);
  return op.not_differentiable(y);
}

Tensor randn_like(const Tensor& x, Rng& rng) {
  check_defined("randn_like", x);
  return randn(x.shape(), rng, x.dtype());
}

Tensor rand_like(const Tensor& x, Rng& rng) {
  check_defined("rand_like", x);
  return uniform(x.shape(), 0, 1, rng, x.dtype());
}

}  // namespace tern
