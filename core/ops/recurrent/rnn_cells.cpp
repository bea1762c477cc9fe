// One step of an LSTM or GRU: the pass over the gates, forward and backward. The caller computes
// the gates' matrix products. Backward recomputes activations instead of keeping them.
#include "tern/core/kernels/recurrent/rnn.h"
#include "tern/core/kernels/scratch.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/recurrent/rnn.h"

namespace tern {
namespace {

using kernels::Scratch;
using kernels::StepRows;

StepRows rows_of(const Tensor& state) { return {state.size(0), state.size(1)}; }

void check_cell(const char* op, const char* what, const Tensor& gates, int64_t parts,
                const Tensor& state) {
  check(state.ndim() == 2, "{}: the state must be (B, H), got {}", op, state.shape());
  check(gates.shape() == Shape{state.size(0), parts * state.size(1)},
        "{}: {} must be (B, {}H) = ({}, {}) for a state {}, got {}", op, what, parts, state.size(0),
        parts * state.size(1), state.shape(), gates.shape());
  check(gates.dtype() == state.dtype(), "{}: {} is {}, the state {}; convert one with .to()", op,
        what, gates.dtype(), state.dtype());
}

// h' and c' go to `y` (2, B, H), the activated gates to `activated`.
template <class T>
void lstm_step(const Tensor& gates, const Tensor& c, T* activated, T* y) {
  // No row has ended, so the kernel does not read the old h.
  kernels::lstm_forward<T>(rows_of(c),
                           {gates.data<T>(), nullptr, c.data<T>(), activated, y, y + c.numel()});
}

Gradients fused_lstm(const Tensor& dy, const Tensor& gates, const Tensor& c) {
  Tensor d = dy.contiguous();
  Fresh dgates(gates.shape(), d.dtype()), dc(c.shape(), d.dtype());
  dispatch_float(d.dtype(), "lstm_cell", [&]<class T>() {
    const int64_t n = c.numel();
    Scratch<T> activated(4 * n), next(2 * n), dh(n);
    lstm_step(gates, c, activated.data(), next.data());
    std::copy_n(d.data<T>(), n, dh.data());
    std::copy_n(d.data<T>() + n, n, dc.data<T>());
    kernels::lstm_backward<T>(rows_of(c), {activated.data(), c.data<T>(), next.data() + n, nullptr,
                                           nullptr, dh.data(), dc.data<T>(), dgates.data<T>()});
  });
  return {not_differentiable(dgates), not_differentiable(dc)};
}

Gradients fused_gru(const Tensor& dy, const Tensor& of_x, const Tensor& of_h, const Tensor& h) {
  Fresh dh(h.shape(), h.dtype()), dof_x(of_x.shape(), h.dtype()), dof_h(of_h.shape(), h.dtype());
  Tensor d = dy.contiguous();
  dispatch_float(h.dtype(), "gru_cell", [&]<class T>() {
    const StepRows rows = rows_of(h);
    const int64_t n = h.numel();
    Scratch<T> gates(4 * n), dgates(4 * n), next(n);
    kernels::gru_join(rows, of_x.data<T>(), of_h.data<T>(), gates.data());
    kernels::gru_forward<T>(rows, {gates.data(), h.data<T>(), gates.data(), next.data()});
    std::copy_n(d.data<T>(), n, dh.data<T>());
    kernels::gru_backward<T>(rows,
                             {gates.data(), h.data<T>(), nullptr, dh.data<T>(), dgates.data()});
    kernels::gru_part(rows, dgates.data(), dof_x.data<T>(), dof_h.data<T>());
  });
  return {not_differentiable(dof_x), not_differentiable(dof_h), not_differentiable(dh)};
}

}  // namespace

Tensor composed::lstm_cell(const Tensor& gates, const Tensor& c) {
  std::vector<Tensor> part = chunk(gates, 4, 1);
  Tensor next = sigmoid(part[1]) * c + sigmoid(part[0]) * tanh(part[2]);
  return stack({sigmoid(part[3]) * tanh(next), next});
}

Tensor composed::gru_cell(const Tensor& of_x, const Tensor& of_h, const Tensor& h) {
  std::vector<Tensor> x = chunk(of_x, 3, 1), s = chunk(of_h, 3, 1);
  Tensor z = sigmoid(x[1] + s[1]);
  Tensor n = tanh(x[2] + sigmoid(x[0] + s[0]) * s[2]);
  return n + z * (h - n);
}

Tensor lstm_cell(const Tensor& gates_in, const Tensor& c_in) {
  Op op("lstm_cell", gates_in, c_in);
  check_defined("lstm_cell", gates_in, c_in);
  check_cell("lstm_cell", "the gates", gates_in, 4, c_in);
  if (detail::composing()) return composed::lstm_cell(gates_in, c_in);
  Tensor gates = gates_in.contiguous(), c = c_in.contiguous();
  Fresh y({2, c.size(0), c.size(1)}, c.dtype());
  dispatch_float(c.dtype(), "lstm_cell", [&]<class T>() {
    Scratch<T> activated(gates.numel());
    lstm_step(gates, c, activated.data(), y.data<T>());
  });
  auto vjp = [gates = save(gates), c = save(c)](const Tensor& dy) {
    if (!grad_enabled()) return fused_lstm(dy, gates.get(), c.get());
    auto fn = [](const std::vector<Tensor>& in) { return composed::lstm_cell(in[0], in[1]); };
    return detail::composed_gradients(fn, {gates.get(), c.get()}, dy);
  };
  return op.record(y, {gates, c}, std::move(vjp));
}

Tensor gru_cell(const Tensor& of_x_in, const Tensor& of_h_in, const Tensor& h_in) {
  Op op("gru_cell", of_x_in, of_h_in, h_in);
  check_defined("gru_cell", of_x_in, of_h_in, h_in);
  check_cell("gru_cell", "the input's part", of_x_in, 3, h_in);
  check_cell("gru_cell", "the state's part", of_h_in, 3, h_in);
  if (detail::composing()) return composed::gru_cell(of_x_in, of_h_in, h_in);
  Tensor of_x = of_x_in.contiguous(), of_h = of_h_in.contiguous(), h = h_in.contiguous();
  Fresh y(h.shape(), h.dtype());
  dispatch_float(h.dtype(), "gru_cell", [&]<class T>() {
    Scratch<T> gates(4 * h.numel());
    kernels::gru_join(rows_of(h), of_x.data<T>(), of_h.data<T>(), gates.data());
    kernels::gru_forward<T>(rows_of(h), {gates.data(), h.data<T>(), gates.data(), y.data<T>()});
  });
  auto vjp = [of_x = save(of_x), of_h = save(of_h), h = save(h)](const Tensor& dy) {
    if (!grad_enabled()) return fused_gru(dy, of_x.get(), of_h.get(), h.get());
    auto fn = [](const std::vector<Tensor>& in) { return composed::gru_cell(in[0], in[1], in[2]); };
    return detail::composed_gradients(fn, {of_x.get(), of_h.get(), h.get()}, dy);
  };
  return op.record(y, {of_x, of_h, h}, std::move(vjp));
}

}  // namespace tern
