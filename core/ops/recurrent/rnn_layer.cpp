// A recurrent layer over whole sequences as one op. One matrix, time first, has the gates of all
// steps. The input's products are computed for all steps at once. Then every step adds the state's
// products to its rows and activates them in place. Backward runs in the other direction and leaves
// the gates' gradients D in a matrix of the same form. Each weight's gradient is then one product:
//   dW_ih = D^T x,  dW_hh = D^T h (of the step before),  db = sum D,  dx = D W_ih.
#include <algorithm>

#include "tern/core/kernels/recurrent/rnn.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/products/matmul.h"
#include "tern/core/ops/recurrent/rnn.h"
#include "tern/core/tape/substitution.h"

namespace tern {
namespace {

/// Gate columns that rows of W_ih produce; see kernels/recurrent/rnn.h for a GRU's order.
struct GateBlock {
  int64_t gates, weight, size;
};

struct Layer {
  RnnKind kind;
  int64_t steps, batch, hidden;
  bool reverse;
  Tensor lengths;

  int64_t parts() const { return gate_parts(kind) * hidden; }
  int64_t width() const { return (kind == RnnKind::gru ? 4 : gate_parts(kind)) * hidden; }
  std::vector<GateBlock> blocks() const {
    if (kind != RnnKind::gru) return {{0, 0, parts()}};
    return {{0, 0, 2 * hidden}, {3 * hidden, 2 * hidden, hidden}};
  }
  int64_t time(int64_t step) const { return reverse ? steps - 1 - step : step; }
  kernels::StepRows rows(int64_t step) const {
    return {batch, hidden, time(step), lengths.defined() ? lengths.data<int64_t>() : nullptr};
  }
  kernels::Squash squash() const {
    return kind == RnnKind::tanh ? kernels::Squash::tanh : kernels::Squash::relu;
  }
};

/// The memory of all steps. h, c and gates are in order of time, which `reverse` walks backwards.
template <class T>
struct Sequence {
  const Layer& layer;
  const T *w_hh, *h0, *c0;
  T *gates, *h, *c;

  int64_t state(int64_t step) const { return layer.time(step) * layer.batch * layer.hidden; }
  int64_t row(int64_t step) const { return layer.time(step) * layer.batch * layer.width(); }
  const T* h_before(int64_t step) const { return step ? h + state(step - 1) : h0; }
  const T* c_before(int64_t step) const { return step ? c + state(step - 1) : c0; }
};

template <class T>
void forward(const Sequence<T>& s) {
  const Layer& l = s.layer;
  kernels::Gemm g;
  g.m = l.batch, g.n = l.parts(), g.k = l.hidden;
  g.a = {l.hidden, 1}, g.b = {1, l.hidden}, g.c = {l.width(), 1};
  for (int64_t step = 0; step < l.steps; ++step) {
    T *gates = s.gates + s.row(step), *new_h = s.h + s.state(step);
    const T* h = s.h_before(step);
    kernels::gemm<T>(g, h, s.w_hh, gates, 1);
    const kernels::StepRows rows = l.rows(step);
    if (l.kind == RnnKind::gru)
      kernels::gru_forward<T>(rows, {gates, h, gates, new_h});
    else if (l.kind == RnnKind::lstm)
      kernels::lstm_forward<T>(rows,
                               {gates, h, s.c_before(step), gates, new_h, s.c + s.state(step)});
    else
      kernels::rnn_forward<T>(rows, l.squash(), {gates, h, new_h});
  }
}

/// dgates from dy_h and dy_c, the gradients of all states. dh and dc begin as 0 and end as the
/// gradients of the initial states.
template <class T>
void backward(const Sequence<T>& s, const T* dy_h, const T* dy_c, T* dgates, T* dh, T* dc) {
  const Layer& l = s.layer;
  kernels::Gemm g;
  g.m = l.batch, g.n = l.hidden, g.k = l.parts();
  g.a = {l.width(), 1}, g.b = {l.hidden, 1}, g.c = {l.hidden, 1};
  for (int64_t step = l.steps - 1; step >= 0; --step) {
    const T *gates = s.gates + s.row(step), *dy = dy_h + s.state(step);
    T* d = dgates + s.row(step);
    const kernels::StepRows rows = l.rows(step);
    if (l.kind == RnnKind::gru)
      kernels::gru_backward<T>(rows, {gates, s.h_before(step), dy, dh, d});
    else if (l.kind == RnnKind::lstm)
      kernels::lstm_backward<T>(rows, {gates, s.c_before(step), s.c + s.state(step), dy,
                                       dy_c + s.state(step), dh, dc, d});
    else
      kernels::rnn_backward<T>(rows, l.squash(), {s.h + s.state(step), dy, dh, d});
    kernels::gemm<T>(g, d, s.w_hh, dh, 1);
  }
}

/// The input with zeros after the lengths: 0 times a NaN there would reach gradients of weights.
Tensor within_lengths(const Layer& l, const Tensor& x) {
  if (!l.lengths.defined()) return x;
  const Tensor time = reshape(arange(0, l.steps, 1, DType::i64), {l.steps, 1});
  return masked_fill(x, unsqueeze(ge(time, l.lengths), 2), 0);
}

/// The layer by public ops, step by step.
Tensor composed_layer(const Layer& l, const std::vector<Tensor>& in) {
  const RnnWeights w{in[1], in[2], in[3], in[4]};
  const bool lstm = l.kind == RnnKind::lstm;
  Tensor of_x = composed::linear(in[0], w.w_ih, w.b_ih);
  if (l.steps == 0) {
    Tensor none = narrow(of_x, 2, 0, l.hidden);
    return lstm ? stack({none, none}) : none;
  }
  Tensor state = lstm ? stack({in[5], in[6]}) : in[5];
  std::vector<Tensor> states(static_cast<size_t>(l.steps));
  for (int64_t step = 0; step < l.steps; ++step) {
    const int64_t t = l.time(step);
    Tensor x = select(of_x, 0, t), h = lstm ? select(state, 0, 0) : state;
    Tensor of_h = composed::linear(h, w.w_hh, w.b_hh);
    Tensor next = l.kind == RnnKind::gru    ? composed::gru_cell(x, of_h, h)
                  : lstm                    ? composed::lstm_cell(x + of_h, select(state, 0, 1))
                  : l.kind == RnnKind::tanh ? tanh(x + of_h)
                                            : relu(x + of_h);
    state = l.lengths.defined() ? where(unsqueeze(gt(l.lengths, t), 1), next, state) : next;
    states[static_cast<size_t>(t)] = state;
  }
  return stack(states, lstm ? 1 : 0);
}

/// Products of the input for all steps, plus bias: (TB, width).
Tensor input_gates(const Layer& l, const Tensor& x, const RnnWeights& w) {
  NoGradGuard guard;
  Tensor bias = zeros(l.width(), x.dtype()), rows = reshape(x, {l.steps * l.batch, x.size(2)});
  Tensor gates = empty({l.steps * l.batch, l.width()}, x.dtype());
  if (w.b_hh.defined()) add_(narrow(bias, 0, 0, l.parts()), w.b_hh);
  for (const GateBlock& b : l.blocks())
    if (w.b_ih.defined())
      add_(narrow(bias, 0, b.gates, b.size), narrow(w.b_ih, 0, b.weight, b.size));
  copy_(gates, bias);
  for (const GateBlock& b : l.blocks())
    add_matmul(narrow(gates, 1, b.gates, b.size), rows,
               transposed(narrow(w.w_ih, 0, b.weight, b.size)));
  return gates;
}

/// Calls add(sum) on the accumulated gradient of input `input`. If there is none, calls it on zeros
/// and returns these.
template <class Add>
Tensor gathered(const Wants& wants, int input, const Tensor& like, Add add) {
  if (!wants[input]) return {};
  Tensor sum = wants.accumulator(input);
  if (sum.defined()) {
    add(sum);
    return {};
  }
  sum = zeros(like.shape(), like.dtype());
  add(sum);
  return sum;
}

struct LayerVjp {
  Layer layer;
  Saved x, w_ih, w_hh, b_ih, b_hh, h0, c0, y;
  Tensor gates;   // activated, (TB, width)
  Saved lengths;  // those in `layer`, to detect writes to them

  template <class T>
  Sequence<T> sequence() const {
    // Backward only reads the states and gates. The const_cast serves a struct of both passes.
    auto read = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
    T* h = const_cast<T*>(y.get().data<T>());
    return {layer,
            w_hh.get().data<T>(),
            h0.get().data<T>(),
            read(c0.get()),
            const_cast<T*>(gates.data<T>()),
            h,
            h + layer.steps * layer.batch * layer.hidden};
  }

  // Returns D (TB, width). dh and dc receive the gradients of h0 and c0.
  Tensor gate_gradients(const Tensor& dy, const Fresh& dh, const Fresh& dc) const {
    Tensor d = dy.contiguous();
    Fresh dgates(gates.shape(), d.dtype());
    dispatch_float(d.dtype(), "rnn_layer", [&]<class T>() {
      const T* dy_h = d.data<T>();
      std::fill_n(dh.data<T>(), dh.numel(), T(0));
      std::fill_n(dc.data<T>(), dc.numel(), T(0));
      backward(sequence<T>(), dy_h, dy_h + layer.steps * layer.batch * layer.hidden,
               dgates.data<T>(), dh.data<T>(), dc.data<T>());
    });
    return not_differentiable(dgates);
  }

  // sum += D^T h, where h is the state before each step: h0, or the previous step's state.
  void add_state_weights(const Tensor& sum, const Tensor& d) const {
    const int64_t rows = layer.batch, rest = (layer.steps - 1) * rows;
    if (layer.steps == 0) return;
    Tensor all = y.get();
    if (layer.kind == RnnKind::lstm) all = select(all, 0, 0);
    Tensor h = reshape(all, {layer.steps * rows, layer.hidden});
    Tensor of_h = narrow(d, 1, 0, layer.parts());
    const int64_t first = layer.reverse ? rest : 0, other = layer.reverse ? 0 : rows;
    add_matmul(sum, transposed(narrow(of_h, 0, first, rows)), h0.get());
    add_matmul(sum, transposed(narrow(of_h, 0, other, rest)), narrow(h, 0, rows - other, rest));
  }

  void add_bias(const Tensor& sum_in, const Tensor& sum_d) const {
    for (const GateBlock& b : layer.blocks())
      add_(narrow(sum_in, 0, b.weight, b.size), narrow(sum_d, 0, b.gates, b.size));
  }

  Gradients operator()(const Tensor& dy, const Wants& wants) const {
    const Tensor in[] = {x.get(),    w_ih.get(), w_hh.get(), b_ih.get(),
                         b_hh.get(), h0.get(),   c0.get()};
    lengths.check_unchanged();
    if (grad_enabled()) {
      auto fn = [&](const std::vector<Tensor>& args) { return composed_layer(layer, args); };
      return detail::composed_gradients(fn, {std::begin(in), std::end(in)}, dy);
    }
    Fresh dh(in[5].shape(), dy.dtype()), dc(in[5].shape(), dy.dtype());
    Tensor d = gate_gradients(dy, dh, dc);
    Tensor rows = reshape(in[0], {layer.steps * layer.batch, in[0].size(2)});
    Gradients g(7);
    g[0] = gathered(wants, 0, in[0], [&](const Tensor& sum) {
      for (const GateBlock& b : layer.blocks())
        add_matmul(reshape(sum, rows.shape()), narrow(d, 1, b.gates, b.size),
                   narrow(in[1], 0, b.weight, b.size));
    });
    g[1] = gathered(wants, 1, in[1], [&](const Tensor& sum) {
      for (const GateBlock& b : layer.blocks())
        add_matmul(narrow(sum, 0, b.weight, b.size), transposed(narrow(d, 1, b.gates, b.size)),
                   rows);
    });
    g[2] = gathered(wants, 2, in[2], [&](const Tensor& sum) { add_state_weights(sum, d); });
    Tensor total = wants[3] || wants[4] ? sum(d, 0) : Tensor();
    g[3] = gathered(wants, 3, in[3], [&](const Tensor& sum) { add_bias(sum, total); });
    if (wants[4]) g[4] = narrow(total, 0, 0, layer.parts());
    if (wants[5]) g[5] = not_differentiable(dh);
    if (wants[6]) g[6] = not_differentiable(dc);
    return g;
  }
};

void check_shape(const char* what, const Tensor& t, const Shape& shape, DType dtype) {
  if (!t.defined()) return;
  check(t.shape() == shape, "rnn_layer: {} must be {}, got {}", what, shape, t.shape());
  check(t.dtype() == dtype, "rnn_layer: {} is {}, not {}; convert it with .to()", what, t.dtype(),
        dtype);
}

Layer check_layer(RnnKind kind, const Tensor& x, const RnnWeights& w, const RnnLayerOptions& o) {
  check_defined("rnn_layer", x, w.w_ih, w.w_hh);
  check(x.ndim() == 3, "rnn_layer: the input must be (T, B, C), got {}", x.shape());
  check(w.w_hh.ndim() == 2, "rnn_layer: w_hh must be (GH, H), got {}", w.w_hh.shape());
  const int64_t hidden = w.w_hh.size(1), parts = gate_parts(kind) * hidden;
  const DType type = x.dtype();
  check_shape("w_hh", w.w_hh, {parts, hidden}, type);
  check_shape("w_ih", w.w_ih, {parts, x.size(2)}, type);
  check_shape("b_ih", w.b_ih, parts, type);
  check_shape("b_hh", w.b_hh, parts, type);
  check_shape("h0", o.h0, {x.size(1), hidden}, type);
  check_shape("c0", o.c0, {x.size(1), hidden}, type);
  check(kind == RnnKind::lstm || !o.c0.defined(), "rnn_layer: c0 is for an LSTM only");
  Layer l{kind, x.size(0), x.size(1), hidden, o.reverse, {}};
  if (!o.lengths.defined()) return l;
  check_shape("lengths", o.lengths, x.size(1), DType::i64);
  l.lengths = o.lengths.contiguous();
  for (int64_t b = 0; b < l.batch; ++b) {
    const int64_t n = l.lengths.data<int64_t>()[b];
    check(n >= 0 && n <= l.steps, "rnn_layer: lengths[{}] is {}, outside [0, {}]", b, n, l.steps);
  }
  return l;
}

}  // namespace

int64_t gate_parts(RnnKind kind) {
  switch (kind) {
    case RnnKind::tanh:
    case RnnKind::relu:
      return 1;
    case RnnKind::gru:
      return 3;
    case RnnKind::lstm:
      return 4;
  }
  fail_unhandled("RnnKind", kind);
}

Tensor composed::rnn_layer(RnnKind kind, const Tensor& x, const RnnWeights& w,
                           const RnnLayerOptions& options) {
  const Layer l = check_layer(kind, x, w, options);
  Tensor none = zeros({l.batch, l.hidden}, x.dtype());
  return composed_layer(
      l, {within_lengths(l, x), w.w_ih, w.w_hh, w.b_ih, w.b_hh,
          options.h0.defined() ? options.h0 : none, options.c0.defined() ? options.c0 : none});
}

Tensor rnn_layer(RnnKind kind, const Tensor& input, const RnnWeights& weights,
                 const RnnLayerOptions& options) {
  Op op("rnn_layer", input, weights.w_ih, weights.w_hh, weights.b_ih, weights.b_hh, options.h0,
        options.c0);
  const Layer l = check_layer(kind, input, weights, options);
  for (const Tensor* w : {&weights.w_ih, &weights.w_hh})
    detail::check_unhooked("rnn_layer", *w, "use cells, or a WeightsInstead");
  if (detail::composing()) return composed::rnn_layer(kind, input, weights, options);
  const bool lstm = kind == RnnKind::lstm;
  auto or_zeros = [&](const Tensor& t) {
    return t.defined() ? t.contiguous() : zeros({l.batch, l.hidden}, input.dtype());
  };
  Tensor x = within_lengths(l, input).contiguous(), w_hh = weights.w_hh.contiguous(),
         h0 = or_zeros(options.h0);
  Tensor c0 = lstm ? or_zeros(options.c0) : Tensor();
  Shape shape{l.steps, l.batch, l.hidden};
  if (lstm) shape.insert(0, 2);
  Fresh y(shape, x.dtype());
  Tensor gates = input_gates(l, x, weights);
  dispatch_float(x.dtype(), "rnn_layer", [&]<class T>() {
    T* h = y.data<T>();
    forward<T>({l, w_hh.data<T>(), h0.data<T>(), lstm ? c0.data<T>() : nullptr,
                const_cast<T*>(gates.data<T>()), h, h + l.steps * l.batch * l.hidden});
  });
  LayerVjp vjp{l,
               save(x),
               save(weights.w_ih),
               save(w_hh),
               save(weights.b_ih),
               save(weights.b_hh),
               save(h0),
               save(c0),
               save(y),
               gates,
               save(l.lengths)};
  return op.record(y, {x, weights.w_ih, w_hh, weights.b_ih, weights.b_hh, h0, c0}, std::move(vjp));
}

RnnStates rnn_states(RnnKind kind, const Tensor& x, const RnnWeights& w,
                     const RnnLayerOptions& options) {
  Op op("rnn_states", x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, options.h0, options.c0);
  const bool lstm = kind == RnnKind::lstm;
  const Tensor all = rnn_layer(kind, x, w, options);
  const int64_t steps = x.size(0);
  auto at_end = [&](const Tensor& states, const Tensor& start) {
    if (steps > 0) return select(states, 0, options.reverse ? 0 : steps - 1);
    return start.defined() ? start : zeros({x.size(1), w.w_hh.size(1)}, x.dtype());
  };
  RnnStates y{lstm ? select(all, 0, 0) : all, {}, {}};
  y.last_h = at_end(y.h, options.h0);
  if (lstm) y.last_c = at_end(select(all, 0, 1), options.c0);
  op.note("kind", static_cast<int64_t>(kind), "reverse", options.reverse, "lengths",
          options.lengths, "result", y.h, "result", y.last_h);
  if (lstm) op.note("result", y.last_c);
  return y;
}

}  // namespace tern
