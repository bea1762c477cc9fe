// Softmax and its logarithm. The kernels take a mask along the last axis only: with one, another
// axis is moved there.
#include "tern/core/kernels/normalisation/softmax.h"

#include <limits>

#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/reduction/reduction.h"

namespace tern {
namespace {

enum class Form { plain, logarithm };

// The kernels' form of a mask from fit_mask().
kernels::RowMask row_mask(const Tensor& mask) {
  if (!mask.defined() || mask.numel() == 0) return {};
  Layout rows = erase_axis(mask.layout(), mask.ndim() - 1);
  return {mask.data<uint8_t>(), kernels::plan_loops(rows.shape, {&rows})};
}

// `mask` expanded to the shape of x, with a contiguous last axis. Undefined if `mask` is.
Tensor fit_mask(const char* op, const Tensor& mask, const Tensor& x) {
  if (!mask.defined()) return {};
  check(mask.dtype() == DType::u8, "{}: a mask must be u8 (0 = left out), got {}", op,
        mask.dtype());
  check(broadcasts_to(mask.shape(), x.shape()), "{}: a mask {} does not broadcast to the input {}",
        op, mask.shape(), x.shape());
  Tensor m = expand(mask, x.shape());
  return x.ndim() && m.strides()[x.ndim() - 1] != 1 ? m.contiguous() : m;
}

kernels::Lines lines_along(const Shape& shape, int axis) {
  kernels::Lines lines{1, shape[axis], 1};
  for (int i = 0; i < axis; ++i) lines.outer *= shape[i];
  for (int i = axis + 1; i < shape.size(); ++i) lines.inner *= shape[i];
  return lines;
}

// Whether lines that are not rows have so few neighbours that moving them to rows is faster than
// computing them side by side.
bool faster_as_rows(const Tensor& x, int axis) {
  const int64_t inner = lines_along(x.shape(), axis).inner;
  return inner > 1 && inner < 8;
}

// dx from dy and the result y, along an axis; by public ops if recorded.
template <Form kForm>
Tensor gradient(Consumed dy, const Tensor& y, int axis) {
  if (grad_enabled() && kForm == Form::plain) return y * (dy.get() - sum(dy.get() * y, axis, true));
  if (grad_enabled()) return dy.get() - exp(y) * sum(dy, axis, true);
  if (faster_as_rows(y, axis)) {
    const Tensor rows = transpose(y, axis, -1).contiguous();
    Consumed of_rows(transpose(dy.get(), axis, -1));
    return transpose(gradient<kForm>(std::move(of_rows), rows, y.ndim() - 1), axis, -1);
  }
  dy.make_contiguous();
  const Tensor& d = dy.get();
  Fresh dx = dy.reuse();
  dispatch_float(d.dtype(), "softmax", [&]<class T>() {
    const kernels::Lines lines = lines_along(d.shape(), axis);
    if constexpr (kForm == Form::plain)
      kernels::softmax_backward(d.data<T>(), y.data<T>(), dx.data<T>(), lines);
    else
      kernels::log_softmax_backward(d.data<T>(), y.data<T>(), dx.data<T>(), lines);
  });
  return not_differentiable(dx);
}

// The result for a contiguous x. `mask` is undefined unless the axis is the last one.
template <Form kForm>
Fresh forward(const char* name, const Tensor& x, int axis, const Tensor& mask) {
  if (faster_as_rows(x, axis)) {
    const NoGradGuard none;
    const Tensor rows = transpose(x, axis, -1).contiguous();
    const Tensor y = not_differentiable(forward<kForm>(name, rows, x.ndim() - 1, mask));
    return Fresh::adopt(transpose(y, axis, -1).contiguous());
  }
  Fresh y(x.shape(), x.dtype());
  dispatch_float(x.dtype(), name, [&]<class T>() {
    const kernels::Lines lines = lines_along(x.shape(), axis);
    if constexpr (kForm == Form::plain)
      kernels::softmax(x.data<T>(), row_mask(mask), y.data<T>(), lines);
    else
      kernels::log_softmax(x.data<T>(), row_mask(mask), y.data<T>(), lines);
  });
  return y;
}

template <Form kForm>
Tensor along_lines(const char* name, const Tensor& x, int axis, const Tensor& mask) {
  Op op(name, x);
  op.note("axis", axis, "mask", mask);
  Tensor c = x.contiguous();
  Fresh y = forward<kForm>(name, c, axis, mask);
  if constexpr (kForm == Form::plain) {
    return op.record(y, {c}, [axis, y = save(y)](Consumed dy) {
      return gradient<kForm>(std::move(dy), y.get(), axis);  // masked elements: y = 0, so dx = 0
    });
  } else {
    return op.record(y, {c}, [axis, y = save(y), mask = save(mask)](Consumed dy) {
      Tensor m = mask.get();
      if (!m.defined()) return gradient<kForm>(std::move(dy), y.get(), axis);
      // Masked elements pass no gradient.
      return gradient<kForm>(Consumed(masked_fill(dy, eq(m, 0), 0)), y.get(), axis);
    });
  }
}

template <Form kForm>
Tensor along(const char* op, const Tensor& x, int64_t axis, const Tensor& mask) {
  const int a = detail::wrap_axis(op, axis, x);
  Tensor m = fit_mask(op, mask, x);
  if (x.ndim() == 0)
    return reshape(along_lines<kForm>(op, reshape(x, 1), 0, m.defined() ? reshape(m, 1) : m), {});
  if (a == x.ndim() - 1 || !m.defined()) return along_lines<kForm>(op, x, a, m);
  m = transpose(m, a, -1).contiguous();
  return transpose(along_lines<kForm>(op, transpose(x, a, -1), x.ndim() - 1, m), a, -1);
}

// x minus its largest unmasked element, -inf where masked; and the sum of its exp (1 if all are
// masked).
struct Shifted {
  Tensor x, total;

  Shifted(const Tensor& logits, int64_t axis, const Tensor& mask) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    auto hide = [&](const Tensor& t) {
      return mask.defined() ? masked_fill(t, eq(mask, 0), -kInf) : t;
    };
    Tensor known = hide(logits.detach());
    Tensor largest = known.numel() ? amax(known, axis, true) : sum(known, axis, true);
    x = hide(logits - masked_fill(largest, eq(largest, -kInf), 0));
    total = sum(exp(x), axis, true);
    total = masked_fill(total, eq(total, 0), 1);
  }
};

}  // namespace

Tensor composed::softmax(const Tensor& x, int64_t axis, const Tensor& mask) {
  const Shifted s(x, axis, mask);
  return exp(s.x) / s.total;
}

Tensor composed::log_softmax(const Tensor& x, int64_t axis, const Tensor& mask) {
  const Shifted s(x, axis, mask);
  Tensor y = s.x - log(s.total);
  return mask.defined() ? masked_fill(y, eq(mask, 0), -std::numeric_limits<double>::infinity()) : y;
}

Tensor softmax(const Tensor& x, int64_t axis, const Tensor& mask) {
  check_defined("softmax", x);
  return along<Form::plain>("softmax", x, axis, mask);
}

Tensor log_softmax(const Tensor& x, int64_t axis, const Tensor& mask) {
  check_defined("log_softmax", x);
  return along<Form::logarithm>("log_softmax", x, axis, mask);
}

}  // namespace tern
