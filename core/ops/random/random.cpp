// Random tensors. All random numbers come from the given generator.
#include <cmath>
#include <limits>

#include "tern/core/base/rng.h"
#include "tern/core/kernels/creation/create.h"
#include "tern/core/ops/creation/write.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

void check_multinomial(const Tensor& w, int64_t n, bool replacement) {
  check(is_float(w.dtype()), "multinomial: needs floating weights, got {}; convert with .to()",
        w.dtype());
  check(w.ndim() == 1 || w.ndim() == 2, "multinomial: needs weights (C,) or (N, C), got {}",
        w.shape());
  check(n >= 1, "multinomial: the number of draws is {}, less than 1", n);
  check(w.size(-1) > 0, "multinomial: the weights of shape {} have no index to draw", w.shape());
  check(replacement || n <= w.size(-1),
        "multinomial: cannot draw {} different indices from {} weights; draw with replacement", n,
        w.size(-1));
  if (w.numel() == 0) return;
  // Every check asks for invalid elements, because in a ShapeOnlyScope every answer reads as 0.
  check(any(logical_or(logical_not(isfinite(w)), lt(w, 0))).item<int>() == 0,
        "multinomial: weights must be finite and not negative");
  const Tensor counts = sum(ne(w, 0), -1);
  check(any(eq(counts, 0)).item<int>() == 0, "multinomial: a row of weights is all 0");
  check(replacement || any(lt(counts, n)).item<int>() == 0,
        "multinomial: cannot draw {} different indices from {} weights that are not 0; draw with "
        "replacement",
        n, min(counts).item<int64_t>());
}

}  // namespace

Tensor randn(const Shape& shape, Rng& rng, DType dtype) {
  Op op("randn");
  Fresh y(shape, dtype);
  dispatch_float(dtype, "randn", [&]<class T>() { rng.fill_normal(y.data<T>(), y.numel()); });
  return op.not_differentiable(y);
}

Tensor uniform(const Shape& shape, double low, double high, Rng& rng, DType dtype) {
  Op op("uniform");
  check(low <= high, "uniform: low {} is above high {}", low, high);
  for (double bound : {low, high}) {
    check(std::isfinite(bound), "uniform: the range from {} to {} is not finite", low, high);
    if (is_float(dtype)) detail::element("uniform", bound, dtype);
  }
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

// Without replacement: the indices of the n largest log(u) / w, with u uniform in (0, 1].
Tensor multinomial(const Tensor& weights, int64_t n, Rng& rng, bool replacement) {
  check_defined("multinomial", weights);
  NoGradGuard guard;
  check_multinomial(weights, n, replacement);
  const Tensor w = weights.detach().to(DType::f64);
  if (!replacement) {
    Tensor u = uniform(w.shape(), 0, 1, rng, DType::f64);
    return topk(where(eq(w, 0), -std::numeric_limits<double>::infinity(),
                      log1p(-u) / where(eq(w, 0), 1, w)),
                n)
        .indices;
  }
  // With replacement: the running sums divide [0, total) in proportion to the weights. A weight of
  // 0 gets an empty part.
  Tensor sums = cumsum(w / amax(w, -1, true), -1);
  Shape shape = w.shape();
  shape[shape.size() - 1] = n;
  Tensor u = uniform(shape, 0, 1, rng, DType::f64) * narrow(sums, -1, w.size(-1) - 1, 1);
  Tensor drawn = searchsorted(sums, u, true);
  // If u was rounded up to the total, this is the last nonzero weight.
  Tensor last = searchsorted(sums, narrow(sums, -1, w.size(-1) - 1, 1), false);
  return minimum(drawn, last);
}

}  // namespace tern
