// Medians, quantiles and elements of a given rank. Gradients go to the chosen elements.
#include <cmath>

#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/memory.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/ops/statistics/statistics.h"

namespace tern {
namespace {

ValuesIndices without_axis(const ValuesIndices& line, int axis, bool keepdim) {
  if (keepdim) return line;
  return {squeeze(line.values, axis), squeeze(line.indices, axis)};
}

// Applies fn to x, which has no axes, as a vector of one element.
template <class Fn>
ValuesIndices without_axes(const Tensor& x, const Fn& fn) {
  ValuesIndices line = fn(reshape(x, {1}));
  return {reshape(line.values, {}), reshape(line.indices, {})};
}

// The ranks below and above each quantile, and the weight of the one above.
struct Ranks {
  Tensor below, above, weight;
};

// The ranks of quantiles q among n elements of type `type`. They are computed in f64, as in
// PyTorch: f32 has too few digits for the weight between two elements. Unlike in PyTorch, the rank
// of an f32 q is rounded to an integer if it differs only by rounding: 0.1f of 11 elements is
// element 1, not a little more.
Ranks ranks_of(const Tensor& q, int64_t n, DType type, QuantileInterpolation interpolation) {
  Tensor rank = q.to(DType::f64) * (n - 1);
  if (q.dtype() == DType::f32) {
    const Tensor off = (round(rank) - rank).detach();
    rank = rank + where(le(abs(off), rank * 0x1p-24), off, 0);
  }
  switch (interpolation) {
    case QuantileInterpolation::linear:
      return {floor(rank), ceil(rank), (rank - floor(rank).detach()).to(type)};
    case QuantileInterpolation::midpoint:
      return {floor(rank), ceil(rank), full(rank.shape(), 0.5, type)};
    case QuantileInterpolation::lower:
      return {floor(rank), {}, {}};
    case QuantileInterpolation::higher:
      return {ceil(rank), {}, {}};
    case QuantileInterpolation::nearest:
      return {round(rank), {}, {}};
  }
  fail_unhandled("QuantileInterpolation", interpolation);
}

// lines (..., n), ranks (Q,) -> (..., Q). Finds only the elements of these ranks.
Tensor at_ranks(const Tensor& lines, const Tensor& ranks) {
  Shape shape = lines.shape();
  shape[shape.size() - 1] = ranks.numel();
  if (ranks.numel() == 0) return narrow(lines, -1, 0, 0);
  const Tensor x = lines.detach(), r = ranks.detach().to(DType::i64);
  const auto first = min(r).item<int64_t>(), last = max(r).item<int64_t>();
  const Tensor order = detail::sorted_part("kthvalue", x, {first, last + 1}, -1, false).indices;
  const Tensor index = gather(order, -1, expand(r - first, shape));
  const Tensor greatest = argmax(x, -1, true);  // the first NaN, if there is one
  return gather(lines, -1, where(isnan(gather(x, -1, greatest)), greatest, index));
}

// Equal infinities need no lerp, which would subtract them.
Tensor between(const Tensor& below, const Tensor& above, const Tensor& weight) {
  const Tensor same = logical_and(eq(below, above), isinf(below));
  return where(same, below, lerp(where(same, 0, below), where(same, 0, above), weight));
}

// The quantiles q, whose type is that of x or f64.
Tensor quantiles(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  check(q.ndim() <= 1, "quantile: q must be a number or a vector, got {}", q.shape());
  for (double v : q.to_vector<double>())
    check(v >= 0 && v <= 1, "quantile: q is {}, outside [0, 1]", v);
  const bool all = !options.axis || x.ndim() == 0;
  const int axis = options.axis ? detail::wrap_axis("quantile", *options.axis, x) : 0;
  Tensor lines = all ? reshape(x, {x.numel()}) : transpose(x, axis, -1);
  check(lines.size(-1) > 0, "quantile: no elements to choose from in shape {}", x.shape());
  const Ranks ranks =
      ranks_of(reshape(q, {q.numel()}), lines.size(-1), x.dtype(), options.interpolation);
  const int64_t count = q.numel();
  Tensor y;
  if (ranks.above.defined()) {
    const Tensor both = at_ranks(lines, cat({ranks.below, ranks.above}));
    y = between(narrow(both, -1, 0, count), narrow(both, -1, count, count), ranks.weight);
  } else {
    y = at_ranks(lines, ranks.below);
  }
  // (..., Q) -> (Q, x with the axis of size 1)
  Shape kept = all ? Shape(Dims::filled(x.ndim(), 1)) : x.shape();
  if (!all) kept[axis] = 1;
  y = unsqueeze(y, 0);
  y = all ? reshape(transpose(y, 0, -1), {q.numel()})
          : transpose(transpose(y, 0, -1), axis + 1, -1);
  Shape shape = kept;
  if (!options.keepdim)
    shape = all ? Shape() : [&] {
      kept.erase(axis);
      return kept;
    }();
  if (q.ndim() == 1) shape.insert(0, q.numel());
  return reshape(y, shape);
}

}  // namespace

Tensor median(const Tensor& x) {
  Op op("median", x);
  check_defined("median", x);
  if (x.numel() == 0) {
    check(is_float(x.dtype()), "median: no elements to choose from in shape {}", x.shape());
    return sum(x) + std::numeric_limits<double>::quiet_NaN();
  }
  Fresh y = [&] {
    NoGradGuard guard;
    return Fresh::adopt(median(reshape(x, {x.numel()}), 0).values);
  }();
  return op.record(y, [x = save(x), y = save(y)](const Tensor& dy) {
    Tensor v = x.get(), m = y.get();
    Tensor equals = where(isnan(m), isnan(v), eq(v, m)).to(dy.dtype());
    return equals * (dy / sum(equals));
  });
}

ValuesIndices median(const Tensor& x, int64_t axis, bool keepdim) {
  check_defined("median", x);
  const int a = detail::wrap_axis("median", axis, x);
  if (x.ndim() == 0) return without_axes(x, [&](const Tensor& t) { return median(t, 0); });
  check(x.size(a) > 0, "median: axis {} of shape {} has no elements", axis, x.shape());
  const int64_t middle = (x.size(a) - 1) / 2;
  Tensor index = detail::sorted_part("median", x.detach(), {middle, middle + 1}, a, false).indices;
  if (is_float(x.dtype()))
    index = where(any(isnan(x), a, true), argmax(x.detach(), a, true), index);
  return without_axis({gather(x, a, index), index}, a, keepdim);
}

ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t axis, bool keepdim) {
  check_defined("kthvalue", x);
  const int a = detail::wrap_axis("kthvalue", axis, x);
  if (x.ndim() == 0) return without_axes(x, [&](const Tensor& t) { return kthvalue(t, k, 0); });
  check(k >= 1 && k <= x.size(a), "kthvalue: k is {}, outside [1, {}] for axis {} of shape {}", k,
        x.size(a), axis, x.shape());
  return without_axis(detail::sorted_part("kthvalue", x, {k - 1, k}, a, false), a, keepdim);
}

Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  check_defined("quantile", x);
  check(is_float(x.dtype()), "quantile: needs a floating tensor, got {}; convert with .to()",
        x.dtype());
  return quantiles(x, scalar(q, DType::f64), options);
}

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  check_defined("quantile", x, q);
  check(is_float(x.dtype()) && q.dtype() == x.dtype(),
        "quantile: needs floating tensors of one type, got {} and quantiles of {}; convert with "
        ".to()",
        x.dtype(), q.dtype());
  return quantiles(x, q, options);
}

VarMean var_mean(const Tensor& x, const Dims& axes, int64_t correction, bool keepdim) {
  check_defined("var_mean", x);
  return {var(x, axes, correction, keepdim), mean(x, axes, keepdim)};
}

}  // namespace tern
