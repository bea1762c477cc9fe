// cumsum, cumprod, cummax, cummin and diff. The gradient of cumprod divides by the factors, or, if
// one of them is 0, differentiates a product by doubling.
#include "tern/core/kernels/scans/scan.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/memory.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/ops/statistics/statistics.h"

namespace tern {
namespace {

/// Contiguous x as (outer, n, inner) around an axis.
struct Lines {
  Lines(const Tensor& x, int axis)
      : n(x.ndim() ? x.size(axis) : 1),
        inner(x.ndim() ? numel(Shape(x.shape().begin() + axis + 1, x.shape().end())) : 1),
        outer(x.numel() / std::max<int64_t>(1, n * inner)) {}
  int64_t n, inner, outer;
};

// The running products by doubling: after step k each element is the product of the 2^k elements up
// to it. Differentiable at zeros too, but takes log n passes.
Tensor cumprod_by_doubling(const Tensor& x, int axis) {
  Tensor y = x;
  for (int64_t step = 1; step < x.size(axis); step *= 2) {
    Tensor head = narrow(y, axis, 0, step);
    Tensor tail = narrow(y, axis, step, x.size(axis) - step);
    y = cat({head, tail * narrow(y, axis, 0, x.size(axis) - step)}, axis);
  }
  return y;
}

ValuesIndices running(const char* name, const Tensor& x, int64_t axis, bool largest) {
  check_defined(name, x);
  if (x.ndim() == 0) {
    detail::wrap_axis(name, axis, x);
    ValuesIndices line = running(name, reshape(x, {1}), 0, largest);
    return {reshape(line.values, {}), reshape(line.indices, {})};
  }
  Op op(name, x);
  const int a = normalize_axis(name, axis, x.ndim());
  Tensor c = x.contiguous();
  Fresh values(x.shape(), x.dtype()), places(x.shape(), DType::i64);
  const Lines lines(x, a);
  if (values.numel() > 0)
    dispatch(x.dtype(), [&]<class T>() {
      kernels::cumulative_extreme(largest, c.data<T>(), values.data<T>(), places.data<int64_t>(),
                                  lines.outer, lines.n, lines.inner);
    });
  Tensor indices = not_differentiable(places);
  Tensor y = op.record(values, {c}, [a, index = save(indices)](const Tensor& dy) {
    return scatter_add(zeros(dy.shape(), dy.dtype()), a, index.get(), dy);
  });
  return {y, indices};
}

// The result of a kernel of cumulative sums or products along an axis of contiguous x.
template <class Kernel>
Fresh accumulated(const Tensor& x, int axis, Kernel kernel) {
  Fresh y(x.shape(), is_float(x.dtype()) ? x.dtype() : DType::i64);
  const Lines lines(x, axis);
  if (y.numel() > 0)
    dispatch(x.dtype(), [&]<class T>() {
      using Out = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;
      kernel(x.data<T>(), y.data<Out>(), lines.outer, lines.n, lines.inner);
    });
  return y;
}

}  // namespace

Tensor cumsum(const Tensor& x, int64_t axis) {
  Op op("cumsum", x);
  check_defined("cumsum", x);
  const int a = detail::wrap_axis("cumsum", axis, x);
  op.note("axis", a);
  Tensor c = x.contiguous();
  Fresh y = accumulated(c, a, [](auto... args) { kernels::cumsum(args...); });
  if (x.ndim() == 0) return op.record(y, {c}, [](const Tensor& dy) { return dy; });
  return op.record(y, {c}, [a](const Tensor& dy) { return flip(cumsum(flip(dy, a), a), a); });
}

// dx[i] = sum over j >= i of dy[j] y[j] / x[i], if no x is 0.
Tensor cumprod(const Tensor& x, int64_t axis) {
  Op op("cumprod", x);
  check_defined("cumprod", x);
  const int a = detail::wrap_axis("cumprod", axis, x);
  Tensor c = x.contiguous();
  Fresh y = accumulated(c, a, [](auto... args) { kernels::cumprod(args...); });
  if (x.ndim() == 0) return op.record(y, {c}, [](const Tensor& dy) { return dy; });
  return op.record(y, {c}, [a, x = save(c), y = save(y)](const Tensor& dy) -> Tensor {
    const Tensor factors = x.get();
    if (all(ne(factors, 0)).item<int>() != 0)
      return flip(cumsum(flip(dy * y.get(), a), a), a) / factors;
    auto fn = [a](const std::vector<Tensor>& in) {
      return cumprod_by_doubling(in[0].to(DType::f64), a).to(in[0].dtype());
    };
    return composed_gradients(fn, {factors}, dy)[0];
  });
}

ValuesIndices cummax(const Tensor& x, int64_t axis) { return running("cummax", x, axis, true); }
ValuesIndices cummin(const Tensor& x, int64_t axis) { return running("cummin", x, axis, false); }

Tensor diff(const Tensor& x, int64_t n, int64_t axis) {
  check_defined("diff", x);
  check(x.ndim() > 0, "diff: needs at least one axis, the shape is {}", x.shape());
  check(n >= 0, "diff: takes differences {} times; n must not be negative", n);
  const int a = normalize_axis("diff", axis, x.ndim());
  if (n == 0) return clone(x);
  Tensor y = x;
  for (; n > 0 && y.size(a) > 0; --n) {
    const int64_t left = y.size(a) - 1;
    y = narrow(y, a, 1, left) - narrow(y, a, 0, left);
  }
  return y;
}

}  // namespace tern
