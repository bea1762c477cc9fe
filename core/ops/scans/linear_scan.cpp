// linear_scan: its gradient is a scan in the other direction. A recorded backward pass uses public
// ops, so that it can be differentiated again. Otherwise one pass computes all gradients.
#include "tern/core/ops/scans/linear_scan.h"

#include "tern/core/kernels/scans/linear_scan.h"
#include "tern/core/ops/composed.h"

namespace tern {
namespace {

kernels::ScanShape shape_of(const Tensor& x, int axis, bool reverse) {
  const Shape& s = x.shape();
  return {numel(Shape(s.begin(), s.begin() + axis)), s[axis],
          numel(Shape(s.begin() + axis + 1, s.end())), reverse};
}

Shape without_axis(Shape shape, int axis) {
  shape.erase(axis);
  return shape;
}

// h_{t-1} from h_t: shifts h by one step in scan order and puts `start` in front.
Tensor delayed(const Tensor& h, const Tensor& start, int axis, bool reverse) {
  const int64_t n = h.size(axis);
  return reverse ? cat({narrow(h, axis, 1, n - 1), start}, axis)
                 : cat({start, narrow(h, axis, 0, n - 1)}, axis);
}

Gradients recorded(const Tensor& dy, const Tensor& a, const Tensor& h, const Tensor& initial,
                   int axis, bool reverse) {
  const int64_t n = a.size(axis);
  if (n == 0) return {dy * a, dy, initial.defined() ? sum(dy * a, axis) : Tensor()};
  const Tensor none = zeros_like(narrow(a, axis, 0, 1));
  Tensor db = linear_scan(delayed(a, none, axis, !reverse), dy, axis, {.reverse = !reverse});
  Tensor before = delayed(h, initial.defined() ? unsqueeze(initial, axis) : none, axis, reverse);
  return {db * before, db,
          initial.defined() ? select(a * db, axis, reverse ? n - 1 : 0) : Tensor()};
}

Gradients fused(Consumed dy, const Tensor& a, const Tensor& h, const Tensor& initial, int axis,
                bool reverse) {
  dy.make_contiguous();
  Fresh da(a.shape(), a.dtype()), db = dy.reuse();
  Tensor dinitial = initial.defined() ? zeros_like(initial) : Tensor();
  if (a.numel() > 0)
    dispatch_float(a.dtype(), "linear_scan", [&]<class T>() {
      kernels::linear_scan_gradients<T>(
          shape_of(a, axis, reverse),
          {a.data<T>(), h.data<T>(), initial.defined() ? initial.data<T>() : nullptr,
           dy.get().data<T>(), da.data<T>(), db.data<T>(),
           dinitial.defined() ? dinitial.mutable_data<T>() : nullptr});
    });
  return {not_differentiable(da), not_differentiable(db), dinitial};
}

void check_operands(const Tensor& a, const Tensor& b, const Tensor& initial) {
  check_defined("linear_scan", a, b);
  for (const Tensor* t : {&b, &initial})
    check(!t->defined() || t->dtype() == a.dtype(),
          "linear_scan: types differ: a {}, {} {}; convert with .to()", a.dtype(),
          t == &b ? "b" : "initial", t->defined() ? t->dtype() : a.dtype());
  check(is_float(a.dtype()), "linear_scan: needs f32 or f64, got {}; convert with .to(DType::f32)",
        a.dtype());
}

Tensor spread_whole(const Tensor& x, const Shape& shape) {
  return (x.shape() == shape ? x : expand(x, shape)).contiguous();
}

}  // namespace

Tensor composed::linear_scan(const Tensor& a, const Tensor& b, int64_t axis,
                             const LinearScanOptions& o) {
  const Shape shape = broadcast_shapes("linear_scan", a.shape(), b.shape());
  const int along = normalize_axis("linear_scan", axis, shape.size());
  const Tensor factors = expand(a, shape), terms = expand(b, shape);
  const int64_t n = shape[along];
  Tensor h = o.initial.defined() ? o.initial : zeros(without_axis(shape, along), b.dtype());
  std::vector<Tensor> steps(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = o.reverse ? n - 1 - i : i;
    h = select(factors, along, t) * h + select(terms, along, t);
    steps[static_cast<size_t>(t)] = h;
  }
  return n == 0 ? terms : stack(steps, along);
}

Tensor linear_scan(const Tensor& a_in, const Tensor& b_in, int64_t axis,
                   const LinearScanOptions& o) {
  Op op("linear_scan", a_in, b_in, o.initial);
  check_operands(a_in, b_in, o.initial);
  const Shape shape = broadcast_shapes("linear_scan", a_in.shape(), b_in.shape());
  check(!shape.empty(), "linear_scan: needs an axis to scan, got two numbers");
  const int along = normalize_axis("linear_scan", axis, shape.size());
  const Tensor a = spread_whole(a_in, shape), b = spread_whole(b_in, shape);
  const Shape of_state = without_axis(shape, along);
  if (o.initial.defined())
    check(broadcasts_to(o.initial.shape(), of_state),
          "linear_scan: the initial state {} does not broadcast to {}, a step of {}",
          o.initial.shape(), of_state, shape);
  if (detail::composing()) return composed::linear_scan(a_in, b_in, axis, o);
  const Tensor initial = o.initial.defined() ? spread_whole(o.initial, of_state) : Tensor();
  Fresh h(shape, a.dtype());
  if (h.numel() > 0)
    dispatch_float(a.dtype(), "linear_scan", [&]<class T>() {
      kernels::linear_scan(shape_of(a, along, o.reverse), a.data<T>(), b.data<T>(),
                           initial.defined() ? initial.data<T>() : nullptr, h.data<T>());
    });
  auto vjp = [along, reverse = o.reverse, a = save(a), h = save(h), initial = save(initial)](
                 Consumed dy, const Wants&) {
    if (grad_enabled()) return recorded(dy, a.get(), h.get(), initial.get(), along, reverse);
    return fused(std::move(dy), a.get(), h.get(), initial.get(), along, reverse);
  };
  return op.record(h, {a, b, initial}, std::move(vjp));
}

}  // namespace tern
