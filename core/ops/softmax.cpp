// Softmax and its logarithm. The kernels work along the last axis; another one is moved there.
#include "tern/core/kernels/softmax.h"

#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/reduction.h"

namespace tern {
namespace {

enum class Form { plain, logarithm };

// What the kernels take of a mask that was expanded to the shape of x: its rows lie together.
kernels::RowMask row_mask(const Tensor& mask) {
  if (!mask.defined() || mask.numel() == 0) return {};
  Layout rows = erase_axis(mask.layout(), mask.ndim() - 1);
  return {mask.data<uint8_t>(), plan_loops(rows.shape, {&rows})};
}

// `mask` in the shape of x, its last axis without gaps; undefined stays so.
Tensor fit_mask(const char* op, const Tensor& mask, const Tensor& x) {
  if (!mask.defined()) return {};
  check(mask.dtype() == DType::u8, "{}: a mask is u8 (0: left out), got {}", op, mask.dtype());
  Tensor m = expand(mask, x.shape());
  return x.ndim() && m.strides()[x.ndim() - 1] != 1 ? m.contiguous() : m;
}

// dx from dy and the result y, along the last axis.
Tensor softmax_backward(Consumed dy, const Tensor& y) {
  dy.make_contiguous();
  const Tensor& d = dy.get();
  Op op("softmax_backward", d, y);
  Fresh dx = dy.reuse();
  dispatch_float(d.dtype(), "softmax", [&]<class T>() {
    kernels::softmax_backward(d.data<T>(), y.data<T>(), dx.data<T>(),
                              d.numel() / std::max<int64_t>(d.size(-1), 1), d.size(-1));
  });
  // dx = y (dy - s), s = sum(dy y):  d(dx)/dy is symmetric; dg/dy_i = g (dy - s) - dy sum(g y).
  auto vjp = [d = save(d), y = save(y)](Consumed g, const Wants& wants) {
    Tensor dy = d.get(), p = y.get();
    Gradients grads(2);
    if (wants[1]) grads[1] = g * (dy - sum(dy * p, -1, true)) - dy * sum(g * p, -1, true);
    if (wants[0]) grads[0] = softmax_backward(std::move(g), p);
    return grads;
  };
  return op.record(dx, vjp);
}

Tensor log_softmax_backward(Consumed dy, const Tensor& y) {
  dy.make_contiguous();
  const Tensor& d = dy.get();
  Op op("log_softmax_backward", d, y);
  Fresh dx = dy.reuse();
  dispatch_float(d.dtype(), "log_softmax", [&]<class T>() {
    kernels::log_softmax_backward(d.data<T>(), y.data<T>(), dx.data<T>(),
                                  d.numel() / std::max<int64_t>(d.size(-1), 1), d.size(-1));
  });
  // dx = dy - exp(y) sum(dy)
  auto vjp = [d = save(d), y = save(y)](const Tensor& g, const Wants& wants) {
    Tensor p = exp(y.get());
    Gradients grads(2);
    if (wants[0]) grads[0] = g - sum(g * p, -1, true);
    if (wants[1]) grads[1] = -g * p * sum(d.get(), -1, true);
    return grads;
  };
  return op.record(dx, vjp);
}

template <Form kForm>
Tensor along_last(const char* name, const Tensor& x, const Tensor& mask) {
  Op op(name, x);
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
      return softmax_backward(std::move(dy), y.get());  // 0 where y is 0
    });
  } else {
    return op.record(y, {c}, [y = save(y), mask = save(mask)](Consumed dy) {
      Tensor m = mask.get();
      if (!m.defined()) return log_softmax_backward(std::move(dy), y.get());
      // What reaches elements that were left out does not count.
      return log_softmax_backward(Consumed(masked_fill(dy, eq(m, 0), 0)), y.get());
    });
  }
}

template <Form kForm>
Tensor along(const char* op, const Tensor& x, int64_t axis, const Tensor& mask) {
  const int a = detail::reduced_axis(op, axis, x);
  Tensor m = fit_mask(op, mask, x);
  if (x.ndim() == 0)
    return reshape(along_last<kForm>(op, reshape(x, 1), m.defined() ? reshape(m, 1) : m), {});
  if (a == x.ndim() - 1) return along_last<kForm>(op, x, m);
  if (m.defined()) m = transpose(m, a, -1).contiguous();
  return transpose(along_last<kForm>(op, transpose(x, a, -1), m), a, -1);
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis, const Tensor& mask) {
  return along<Form::plain>("softmax", x, axis, mask);
}

Tensor log_softmax(const Tensor& x, int64_t axis, const Tensor& mask) {
  return along<Form::logarithm>("log_softmax", x, axis, mask);
}

}  // namespace tern
