// Softmax and its logarithm. The kernels work along the last axis; other axes are moved there.
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

// dx from dy and the result y, along the last axis; by public ops if recorded.
template <Form kForm>
Tensor gradient(Consumed dy, const Tensor& y) {
  if (grad_enabled() && kForm == Form::plain) return y * (dy.get() - sum(dy.get() * y, -1, true));
  if (grad_enabled()) return dy.get() - exp(y) * sum(dy, -1, true);
  dy.make_contiguous();
  const Tensor& d = dy.get();
  Fresh dx = dy.reuse();
  dispatch_float(d.dtype(), "softmax", [&]<class T>() {
    const int64_t n = d.size(-1), rows = d.numel() / std::max<int64_t>(n, 1);
    if constexpr (kForm == Form::plain)
      kernels::softmax_backward(d.data<T>(), y.data<T>(), dx.data<T>(), rows, n);
    else
      kernels::log_softmax_backward(d.data<T>(), y.data<T>(), dx.data<T>(), rows, n);
  });
  return not_differentiable(dx);
}

template <Form kForm>
Tensor along_last(const char* name, const Tensor& x, const Tensor& mask) {
  Op op(name, x);
  op.note("mask", mask);
  Tensor c = x.contiguous();
  Fresh y(c.shape(), c.dtype());
  const int64_t n = c.size(-1), rows = c.numel() / std::max<int64_t>(n, 1);
  dispatch_float(c.dtype(), name, [&]<class T>() {
    if constexpr (kForm == Form::plain)
      kernels::softmax(c.data<T>(), row_mask(mask), y.data<T>(), rows, n);
    else
      kernels::log_softmax(c.data<T>(), row_mask(mask), y.data<T>(), rows, n);
  });
  if constexpr (kForm == Form::plain) {
    return op.record(y, {c}, [y = save(y)](Consumed dy) {
      return gradient<kForm>(std::move(dy), y.get());  // masked elements have y = 0, so dx = 0
    });
  } else {
    return op.record(y, {c}, [y = save(y), mask = save(mask)](Consumed dy) {
      Tensor m = mask.get();
      if (!m.defined()) return gradient<kForm>(std::move(dy), y.get());
      // Masked elements pass no gradient.
      return gradient<kForm>(Consumed(masked_fill(dy, eq(m, 0), 0)), y.get());
    });
  }
}

template <Form kForm>
Tensor along(const char* op, const Tensor& x, int64_t axis, const Tensor& mask) {
  const int a = detail::wrap_axis(op, axis, x);
  Tensor m = fit_mask(op, mask, x);
  if (x.ndim() == 0)
    return reshape(along_last<kForm>(op, reshape(x, 1), m.defined() ? reshape(m, 1) : m), {});
  if (a == x.ndim() - 1) return along_last<kForm>(op, x, m);
  if (m.defined()) m = transpose(m, a, -1).contiguous();
  return transpose(along_last<kForm>(op, transpose(x, a, -1), m), a, -1);
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
