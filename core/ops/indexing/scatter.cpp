// Writing at indices along an axis: scatter, scatter_reduce, index_add.
//
//   y = x;  y[..., index, ...] = s        dx = dy, 0 where written;  ds = dy[..., index, ...]
#include <cmath>

#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/indexing/positions.h"
#include "tern/core/ops/memory.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

using detail::with_axes;
using kernels::Combine;

/// A scatter's operands after all checks: the index is i64; the source has its shape.
struct ScatterOperands {
  ScatterOperands(const char* op, const Tensor& x, int64_t along, const Tensor& given,
                  const Tensor& source)
      : axis(normalize_axis(op, along, x.ndim())) {
    check(x.dtype() == source.dtype(), "{}: writes {} to {}; convert one with .to()", op,
          source.dtype(), x.dtype());
    detail::check_covers(op, x, given, axis);
    detail::check_covers(op, source, given, -1);
    index = detail::checked_index(op, given, x.shape()[axis]);
    used = detail::covered(source, index);
  }
  /// Tells observers the axis, the index, and the part of the source.
  void note(Op& op) const { op.note("axis", axis, "index", index, "source", used); }
  int axis;
  Tensor index, used;
};

Fresh combined(const char* op, Combine how, const Tensor& x, const ScatterOperands& o) {
  return filled(x.detach().clone(), [&](const Tensor& out) {
    detail::scatter_into(op, how, out, o.axis, o.index, o.used);
  });
}

Tensor product(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);

// A factor's gradient is dy times the product of the others, which is y / s if s is not 0. If only
// one source is 0, its gradient is the product without it. If two are, all gradients are 0.
Gradients product_gradients(const Tensor& dy, const Tensor& x, const Tensor& s, const Tensor& y,
                            int axis, const Tensor& index, const Wants& wants) {
  Gradients g(2);
  if (wants[0]) {
    Tensor factor = masked_fill(x, eq(x, 0), 1);
    g[0] = dy * (product(factor, axis, index, s) / factor);
  }
  if (!wants[1]) return g;
  const Tensor zero = eq(s, 0), factor = masked_fill(s, zero, 1);
  g[1] = gather(dy * y, axis, index) / factor;
  Tensor zeros_of = scatter_add(zeros(x.shape(), DType::i64), axis, index, zero.to(DType::i64));
  const int64_t most = s.numel() > 0 ? max(zeros_of).item<int64_t>() : 0;
  check(most < 2 || !grad_enabled(),
        "scatter_reduce: a product of {} zeros among the sources of one element has no second "
        "derivative",
        most);
  if (most == 0) return g;
  Tensor others = gather(dy * product(x, axis, index, factor), axis, index);
  Tensor only = logical_and(zero, eq(gather(zeros_of, axis, index), 1));
  g[1] = where(only, others, g[1]);
  return g;
}

Tensor product(const Tensor& x, int64_t axis, const Tensor& given, const Tensor& source) {
  Op op("scatter_reduce", x, source);
  const ScatterOperands o("scatter_reduce", x, axis, given, source);
  o.note(op);
  Fresh y = combined("scatter_reduce", Combine::multiply, x, o);
  auto vjp = [a = o.axis, x = save(x), s = save(o.used), y = save(y), index = save(o.index)](
                 const Tensor& dy, const Wants& wants) {
    return product_gradients(dy, x.get(), s.get(), y.get(), a, index.get(), wants);
  };
  return op.record(y, {x, o.used}, vjp);
}

// All elements equal to the extreme share its gradient.
Tensor best(const Tensor& x, int64_t axis, const Tensor& given, const Tensor& source, Combine how) {
  Op op("scatter_reduce", x, source);
  const ScatterOperands o("scatter_reduce", x, axis, given, source);
  o.note(op);
  op.note("largest", how == Combine::largest);
  Fresh y = combined("scatter_reduce", how, x, o);
  auto vjp = [a = o.axis, x = save(x), s = save(o.used), y = save(y),
              at = save(o.index)](const Tensor& dy) {
    const Tensor index = at.get(), of_y = y.get();
    const DType type = dy.dtype();
    Tensor x_is = eq(x.get(), of_y).to(type);
    Tensor s_is = eq(s.get(), gather(of_y, a, index)).to(type);
    Tensor share = dy / scatter_add(x_is, a, index, s_is);
    return Gradients{x_is * share, s_is * gather(share, a, index)};
  };
  return op.record(y, {x, o.used}, vjp);
}

// A value that never becomes the largest (or smallest).
Scalar neutral(DType type, bool largest) {
  const double infinite = std::numeric_limits<double>::infinity();
  if (is_float(type)) return largest ? -infinite : infinite;
  if (type == DType::u8) return largest ? 0 : 255;
  return largest ? INT64_MIN : INT64_MAX;
}

Tensor mean_of(const Tensor& total, bool include_self, int64_t axis, const Tensor& index) {
  const DType type = is_float(total.dtype()) ? total.dtype() : DType::i64;
  Tensor one = ones({}, type);
  Tensor count = scatter_add(include_self ? ones(total.shape(), type) : zeros(total.shape(), type),
                             axis, index, expand(one, index.shape()));
  count = maximum(count, 1);
  if (is_float(type)) return total / count;
  return floor_divide(total, count).to(total.dtype());
}

}  // namespace

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& given, const Tensor& source) {
  Op op("scatter", x, source);
  check_defined("scatter", x, given, source);
  if (x.ndim() == 0)
    return reshape(scatter(with_axes(x), axis, with_axes(given), with_axes(source)), {});
  const ScatterOperands o("scatter", x, axis, given, source);
  o.note(op);
  // If several values go to one element, all get its gradient, as in PyTorch.
  Fresh y = combined("scatter", Combine::set, x, o);
  return op.record(y, {x, o.used},
                   [a = o.axis, index = save(o.index)](const Tensor& dy, const Wants& wants) {
                     Gradients g(2);
                     if (wants[0]) g[0] = scatter(dy, a, index.get(), 0);
                     if (wants[1]) g[1] = gather(dy, a, index.get());
                     return g;
                   });
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Scalar value) {
  check_defined("scatter", x, index);
  Tensor one = detail::stored_scalar("scatter", value, x.dtype());
  return scatter(x, axis, index, expand(one, index.shape()));
}

Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& given, const Tensor& source,
                      ScatterReduce reduce, bool include_self) {
  check_defined("scatter_reduce", x, given, source);
  if (x.ndim() == 0)
    return reshape(scatter_reduce(with_axes(x), axis, with_axes(given), with_axes(source), reduce,
                                  include_self),
                   {});
  const ScatterOperands o("scatter_reduce", x, axis, given, source);
  auto base = [&](Scalar start) { return include_self ? x : scatter(x, o.axis, o.index, start); };
  const bool largest = reduce == ScatterReduce::amax;
  switch (reduce) {
    case ScatterReduce::sum:
      return scatter_add(base(0), o.axis, o.index, o.used);
    case ScatterReduce::mean:
      if (x.dtype() == DType::u8)  // the sum may not fit
        return scatter_reduce(x.to(DType::i64), axis, given, source.to(DType::i64), reduce,
                              include_self)
            .to(DType::u8);
      return mean_of(scatter_add(base(0), o.axis, o.index, o.used), include_self, o.axis, o.index);
    case ScatterReduce::prod:
      return product(base(1), o.axis, o.index, o.used);
    case ScatterReduce::amax:
    case ScatterReduce::amin:
      return best(base(neutral(x.dtype(), largest)), o.axis, o.index, o.used,
                  largest ? Combine::largest : Combine::smallest);
  }
  fail_unhandled("ScatterReduce", reduce);
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha) {
  check_defined("index_add", x, index, source);
  if (x.ndim() == 0)
    return reshape(index_add(with_axes(x), axis, index, with_axes(source), alpha), {});
  const int a = normalize_axis("index_add", axis, x.ndim());
  check(index.ndim() <= 1, "index_add: the index has shape {}, but must be one list",
        index.shape());
  Shape shape = x.shape();
  shape[a] = index.numel();
  check(source.shape() == shape, "index_add: the source must be {}, got {}", shape, source.shape());
  check(source.dtype() == x.dtype(), "index_add: adds {} to {}; convert one with .to()",
        source.dtype(), x.dtype());
  const bool whole = alpha == std::floor(alpha) && std::abs(alpha) < 0x1p63;
  check(is_float(x.dtype()) || whole,
        "index_add: alpha is {}, but the tensors are integers; convert with .to(DType::f32)",
        alpha);
  const Scalar factor = is_float(x.dtype()) ? Scalar(alpha) : Scalar(static_cast<int64_t>(alpha));
  Shape line = Dims::filled(x.ndim(), 1);
  line[a] = index.numel();
  const Tensor list = reshape(detail::checked_index("index_add", index, x.shape()[a]), line);
  return scatter_add(x, a, expand(list, shape), alpha == 1 ? source : source * factor);
}

}  // namespace tern
