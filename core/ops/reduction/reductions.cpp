// sum, sum_to, mean, max, min, amax, amin, any and all, each one call of a reduction kernel. Others
// are built from these in statistics.cpp.
#include <algorithm>

#include "tern/core/kernels/reduction/reduction.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace detail {

int wrap_axis(const char* op, int64_t axis, const Tensor& x) {
  return normalize_axis(op, axis, std::max(x.ndim(), 1));
}

Reduced::Reduced(const char* op, const Tensor& x, const Dims& given, bool keepdim)
    : axes(normalize_axes(op, given, given.empty() ? x.ndim() : std::max(x.ndim(), 1))),
      kept(x.shape()),
      count(1) {
  if (x.ndim() == 0) axes = {};
  for (int64_t axis : axes) {
    count *= kept[static_cast<int>(axis)];
    kept[static_cast<int>(axis)] = 1;
  }
  for (int axis = 0; axis < x.ndim(); ++axis)
    if (keepdim || !axes.contains(axis)) out.push_back(kept[axis]);
}

Reduced reduction_of(Op& op, const Tensor& x, const Dims& axes, bool keepdim) {
  check_defined(op.name(), x);
  Reduced r(op.name(), x, axes, keepdim);
  op.note("axes", r.axes, "keepdim", keepdim);
  return r;
}

}  // namespace detail

namespace {

using detail::Reduced;
using detail::reduction_of;

// The sum of x over `axes` divided by `divisor`, in `shape`, which has the same number of
// elements.
Fresh sum_over(const Tensor& x, const Dims& axes, const Shape& shape, double divisor) {
  Fresh y(shape, is_float(x.dtype()) ? x.dtype() : DType::i64);
  dispatch(x.dtype(), [&]<class T>() {
    using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
    kernels::sum(kernels::plan_reduction(x.layout(), axes), x.data<T>(), y.data<Out>(), divisor);
  });
  return y;
}

// The axes of `from` to sum over for a result of shape `to`, which broadcasts to `from`.
Dims stretched_axes(const Shape& from, const Shape& to) {
  const int added = from.size() - to.size();
  check(added >= 0, "sum_to: shape {} has more axes than {}", to, from);
  Dims axes;
  for (int i = 0; i < added; ++i) axes.push_back(i);
  for (int i = 0; i < to.size(); ++i) {
    if (to[i] == from[i + added]) continue;
    check(to[i] == 1, "sum_to: {} is not a broadcast of {}: axis {} has sizes {} and {}", from, to,
          i + added, from[i + added], to[i]);
    axes.push_back(i + added);
  }
  return axes;
}

enum class End { largest, smallest };

template <End kEnd>
Fresh best_over(const Tensor& x, const Dims& axes, const Shape& shape) {
  Fresh y(shape, x.dtype());
  kernels::ReducePlan plan = kernels::plan_reduction(x.layout(), axes);
  dispatch(x.dtype(), [&]<class T>() {
    if constexpr (kEnd == End::largest)
      kernels::max(plan, x.data<T>(), y.data<T>());
    else
      kernels::min(plan, x.data<T>(), y.data<T>());
  });
  return y;
}

// Elements equal to the extreme share its gradient.
template <End kEnd>
Tensor best(const char* name, const Tensor& x, const Dims& axes, bool keepdim) {
  Op op(name, x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  check(r.count > 0, "{}: no elements to choose from: axes {} of shape {}", name, r.axes,
        x.shape());
  Fresh y = best_over<kEnd>(x, r.axes, r.out);
  return op.record(y, [r, x = save(x), y = save(y)](const Tensor& dy) {
    Tensor equals = eq(x.get(), r.broadcastable(y.get())).to(dy.dtype());
    return equals * (r.broadcastable(dy) / sum(equals, r.axes, true));
  });
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  Op op("sum", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  return op.record(sum_over(x, r.axes, r.out, 1), [r, shape = x.shape()](const Tensor& dy) {
    return expand(r.broadcastable(dy), shape);
  });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  check_defined("sum_to", x);
  if (x.shape() == shape) return x;
  Op op("sum_to", x);
  return op.record(sum_over(x, stretched_axes(x.shape(), shape), shape, 1),
                   [from = x.shape()](const Tensor& dy) { return expand(dy, from); });
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  Op op("mean", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  check(is_float(x.dtype()), "mean: needs a floating tensor, got {}; convert with .to(DType::f32)",
        x.dtype());
  const int64_t n = std::max<int64_t>(r.count, 1);  // the gradient is empty if count is 0
  return op.record(sum_over(x, r.axes, r.out, static_cast<double>(r.count)),
                   [r, n, shape = x.shape()](const Tensor& dy) {
                     return expand(r.broadcastable(dy / n), shape);
                   });
}

Tensor max(const Tensor& x) { return best<End::largest>("max", x, {}, false); }
Tensor min(const Tensor& x) { return best<End::smallest>("min", x, {}, false); }
Tensor amax(const Tensor& x, const Dims& axes, bool keepdim) {
  return best<End::largest>("amax", x, axes, keepdim);
}
Tensor amin(const Tensor& x, const Dims& axes, bool keepdim) {
  return best<End::smallest>("amin", x, axes, keepdim);
}

// any is the largest and all the smallest element of ne(x, 0), which gives 0 and 1. The largest of
// no elements is 0. The smallest would be 255, so all() returns ones.
Tensor any(const Tensor& x, const Dims& axes, bool keepdim) {
  Op op("any", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  return op.not_differentiable(best_over<End::largest>(ne(x, 0), r.axes, r.out));
}

Tensor all(const Tensor& x, const Dims& axes, bool keepdim) {
  Op op("all", x);
  Reduced r = reduction_of(op, x, axes, keepdim);
  if (r.count == 0) return ones(r.out, DType::u8);
  return op.not_differentiable(best_over<End::smallest>(ne(x, 0), r.axes, r.out));
}

}  // namespace tern
