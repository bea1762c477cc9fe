// Reductions built from others: var, std, prod, norm and logsumexp. Variances are computed in
// double for every type.
#include <cmath>

#include "tern/core/kernels/reduction/reduction.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::map;
using detail::Reduced;
using detail::reduction_of;

// The product along one axis: multiplies halves until one element is left. Zeros need no special
// case, and derivatives of any order are those of mul.
Tensor prod_over(const Tensor& x, int axis) {
  Tensor y = x, rest;
  while (y.size(axis) > 1) {
    const int64_t n = y.size(axis), half = n / 2;
    if (n % 2) {
      Tensor last = narrow(y, axis, n - 1, 1);
      rest = rest.defined() ? rest * last : last;
    }
    y = narrow(y, axis, 0, half) * narrow(y, axis, half, half);
  }
  return rest.defined() ? y * rest : y;
}

// dy * d|x|_p/dx, where y = |x|_p; y and dy broadcast to x. The gradient is 0 at elements that are
// 0, and everywhere if y is 0, as in PyTorch.
Tensor norm_gradient(const Tensor& dy, const Tensor& x, const Tensor& y, double p,
                     const Dims& axes) {
  if (p == 0) return detail::zero_gradient(expand(dy, x.shape()));
  if (p == 1) return dy * sign(x);
  if (std::isinf(p)) {  // the largest elements share the gradient
    Tensor equals = eq(abs(x), y).to(x.dtype());
    return sign(x) * equals * (dy / sum(equals, axes, true));
  }
  Tensor zero = eq(y, 0), divisor = masked_fill(y, zero, 1), slope = masked_fill(dy, zero, 0);
  if (p == 2) return x / divisor * slope;  // dy / y may overflow
  // sign(x) (|x| / y)^(p-1), which must stay finite where another factor is 0
  Tensor ratio = masked_fill(abs(x) / divisor, logical_or(eq(x, 0), zero), 1);
  return slope * sign(x) * pow(ratio, p - 1);
}

// The first element of x along the axes, as a constant.
Tensor first_of(const Tensor& x, const Dims& axes) {
  Tensor first = x.detach();
  for (int64_t axis : axes) first = narrow(first, axis, 0, std::min<int64_t>(1, x.size(axis)));
  return first;
}

// x - mean(x) along the axes. Subtracts the first element first: equal elements become exactly 0.
Tensor centred(const Tensor& x, const Dims& axes) {
  Tensor shifted = x - first_of(x, axes);
  return shifted - mean(shifted, axes, true);
}

// n - correction, but at least 0.
double divisor_of(const Reduced& r, int64_t correction) {
  return std::max(static_cast<double>(r.count) - static_cast<double>(correction), 0.0);
}

// The variance or its root. Computes in double until the end: squares of f32 may overflow or
// underflow although the root does not. Too few elements give NaN (0/0) or infinity, as in PyTorch.
Fresh spread(const char* op, const Tensor& x, const Reduced& r, int64_t correction, bool root) {
  check(is_float(x.dtype()), "{}: needs a floating tensor, got {}; convert with .to(DType::f32)",
        op, x.dtype());
  NoGradGuard guard;
  Fresh d(x.shape(), DType::f64);  // first x - first_of(x), then the squares of x - mean
  auto difference = [](double v, double other) { return v - other; };
  map<double, double, double>(op, d, difference, x, first_of(x, r.axes));
  Tensor shifted = not_differentiable(d);
  auto squared = [](double v, double centre) { return (v - centre) * (v - centre); };
  map<double, double, double>(op, d, squared, shifted, mean(shifted, r.axes, true));
  Tensor y = reshape(sum(shifted, r.axes) / divisor_of(r, correction), r.out);
  return Fresh::adopt((root ? sqrt(y) : y).to(x.dtype()));
}

}  // namespace

// d var / dx = 2 (x - mean) / (n - correction).
Tensor var(const Tensor& x, const Dims& axes, int64_t correction, bool keepdim) {
  Op op("var", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  op.note("count", r.count, "correction", correction);
  Fresh y = spread("var", x, r, correction, false);
  return op.record(y, [r, correction, x = save(x)](const Tensor& dy) {
    return centred(x.get(), r.axes) * (r.broadcastable(dy) * (2 / divisor_of(r, correction)));
  });
}

// d std / dx = (x - mean) / ((n - correction) std), and 0 where std is 0. std is exactly 0 if all
// elements are equal, however their mean is rounded.
Tensor std(const Tensor& x, const Dims& axes, int64_t correction, bool keepdim) {
  Op op("std", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  op.note("count", r.count, "correction", correction);
  Fresh y = spread("std", x, r, correction, true);
  return op.record(y, [r, correction, x = save(x), y = save(y)](const Tensor& dy) {
    Tensor s = r.broadcastable(y.get()), zero = eq(s, 0);
    Tensor slope = masked_fill(r.broadcastable(dy) / divisor_of(r, correction), zero, 0);
    return centred(x.get(), r.axes) / masked_fill(s, zero, 1) * slope;  // dy / s may overflow
  });
}

Tensor stddev(const Tensor& x, const Dims& axes, int64_t correction, bool keepdim) {
  check_defined("stddev", x);
  return tern::std(x, axes, correction, keepdim);
}

Tensor prod(const Tensor& x, const Dims& axes, bool keepdim) {
  Op op("prod", x);
  const Reduced r = reduction_of(op, x, axes, keepdim);
  Tensor y = is_float(x.dtype()) ? x : x.to(DType::i64);
  if (r.count == 0) return sum(y, r.axes, keepdim) + 1;
  // Computes in f64: equal factors all round the same way, so the error doubles at every halving.
  if (is_float(x.dtype()) && r.count > 1) y = y.to(DType::f64);
  for (int64_t axis : r.axes) y = prod_over(y, static_cast<int>(axis));
  if (is_float(x.dtype())) y = y.to(x.dtype());
  y = reshape(r.count == 1 ? clone(y) : y, r.out);
  // The parts of a product of integers are told instead: onnxruntime's ReduceProd rounds to f64.
  if (is_float(x.dtype())) op.note("result", y);
  return y;
}

namespace {

/// (sum |x|^p)^(1/p), and its limits: p = 0 counts elements that are not zero, p = infinity takes
/// the largest |x|, p = -infinity the smallest.
Fresh norm_value(const Tensor& x, double p, const Reduced& r) {
  if (p != 0 && !std::isinf(p)) {
    Fresh y(r.out, x.dtype());
    dispatch_float(x.dtype(), "norm", [&]<class T>() {
      kernels::norm(kernels::plan_reduction(x.layout(), r.axes), x.data<T>(), y.data<T>(), p);
    });
    return y;
  }
  NoGradGuard guard;
  if (r.count == 0) return Fresh::adopt(zeros(r.out, x.dtype()));
  const Tensor y = p == 0  ? sum(ne(x, 0), r.axes).to(x.dtype())
                   : p > 0 ? amax(abs(x), r.axes)
                           : amin(abs(x), r.axes);
  return Fresh::adopt(reshape(y, r.out));
}

}  // namespace

Tensor norm(const Tensor& x, double p, const Dims& axes, bool keepdim) {
  Op op("norm", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  op.note("p", p);
  check(is_float(x.dtype()), "norm: needs a floating tensor, got {}; convert with .to(DType::f32)",
        x.dtype());
  check(r.count > 0 || p >= 0, "norm: p = {} needs at least one element: axes {} of shape {}", p,
        r.axes, x.shape());
  const Fresh y = norm_value(x, p, r);
  return op.record(y, [r, p, x = save(x), y = save(y)](const Tensor& dy) {
    return norm_gradient(r.broadcastable(dy), x.get(), r.broadcastable(y.get()), p, r.axes);
  });
}

// m + log sum exp(x - m) with m = max(x), or m = 0 if that is infinite; dx = dy exp(x - y).
Tensor logsumexp(const Tensor& x, const Dims& axes, bool keepdim) {
  check_defined("logsumexp", x);
  if (!is_float(x.dtype())) return logsumexp(x.to(DType::f32), axes, keepdim);
  Op op("logsumexp", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Fresh y = [&] {
    NoGradGuard guard;
    if (r.count == 0) return Fresh::adopt(full(r.out, -kInfinity, x.dtype()));
    Tensor m = amax(x, r.axes, true);
    m = masked_fill(m, eq(abs(m), kInfinity), 0);
    return Fresh::adopt(reshape(log(sum(exp(x - m), r.axes, true)) + m, r.out));
  }();
  return op.record(y, [r, x = save(x), y = save(y)](const Tensor& dy) {
    Tensor top = r.broadcastable(y.get());  // where -inf, all of x is -inf and gets no gradient
    return r.broadcastable(dy) * exp(x.get() - masked_fill(top, eq(top, -kInfinity), 0));
  });
}

}  // namespace tern
