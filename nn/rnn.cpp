// RNN, GRU and LSTM over layers and directions with padded sequences, and their single-step cells.
// The loop over time is in core/ops/recurrent/rnn.h.
#include "tern/nn/rnn.h"

#include <cmath>

#include "tern/core/tape/op.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

Parameter uniform_parameter(const Shape& shape, double bound, Rng& rng) {
  Parameter p(empty(shape));
  init::uniform(p, -bound, bound, rng);
  return p;
}

RnnKind kind_of(RnnNonlinearity n) {
  return n == RnnNonlinearity::tanh ? RnnKind::tanh : RnnKind::relu;
}

// The state, or zeros (B, H) if it is undefined.
Tensor state_or_zeros(const char* cell, const Tensor& x, const Tensor& state,
                      const RnnParameters& p) {
  const int64_t hidden = p.weight_hh.size(1);
  check(x.ndim() == 2 && x.size(1) == p.weight_ih.size(1), "{}: x must be (B, {}), got {}", cell,
        p.weight_ih.size(1), x.shape());
  const Shape shape{x.size(0), hidden};
  check(!state.defined() || state.shape() == shape, "{}: the state must be {}, got {}", cell, shape,
        state.defined() ? state.shape() : Shape());
  return state.defined() ? state : zeros(shape, x.dtype());
}

Tensor input_product(const Tensor& x, const RnnParameters& p) {
  return linear(x, p.weight_ih, p.bias_ih);
}

Tensor gates_of(const Tensor& x, const Tensor& h, const RnnParameters& p) {
  return linear(h, p.weight_hh, p.bias_hh, {.residual = input_product(x, p)});
}

void check_state(const char* what, const Tensor& state, const Shape& shape) {
  check(!state.defined() || state.shape() == shape,
        "recurrent network: the state {} must be (layers * directions, B, H) = {}, got {}", what,
        shape, state.defined() ? state.shape() : Shape());
}

/// Error if half of an LSTM's state is missing, or another network is given an LSTM's.
void check_parts(bool lstm, const RnnState& state) {
  check(
      !lstm || state.h.defined() == state.c.defined(),
      "recurrent network: an LSTM's state has h and c, and only {} is given; give both, or neither "
      "for zeros",
      state.h.defined() ? "h" : "c");
  check(lstm || !state.c.defined(), "recurrent network: only an LSTM's state has c");
}

Tensor layer_state(const Tensor& state, int64_t i) {
  return state.defined() ? select(state, 0, i) : Tensor();
}

/// u8 (B, T, 1): 1 after a row's length.
Tensor padding(const Tensor& lengths, int64_t steps) {
  return unsqueeze(le(unsqueeze(lengths, 1), arange(0, steps)), 2);
}

Tensor zero_state(const Shape& shape, const Parameter& like) {
  for (int64_t n : shape) check(n >= 0, "zeros: the batch size must not be negative, got {}", n);
  return zeros(shape, like.dtype());
}

Tensor zero_state(int64_t batch, const RnnParameters& p) {
  return zero_state({batch, p.weight_hh.size(1)}, p.weight_hh);
}

}  // namespace

int64_t RnnState::batch() const {
  check(h.defined(), "RnnState: an undefined state has no batch; start from zeros(layers, B, H)");
  return h.size(-2);
}

RnnState RnnState::select_rows(const Tensor& rows) const {
  auto pick = [&](const Tensor& t) { return t.defined() ? index_select(t, -2, rows) : t; };
  return {pick(h), pick(c)};
}

RnnState RnnState::detach() const {
  return {h.defined() ? h.detach() : h, c.defined() ? c.detach() : c};
}

RnnParameters::RnnParameters(RnnKind kind, int64_t in, int64_t hidden, Bias bias, Rng& rng) {
  check(in > 0 && hidden > 0,
        "recurrent network: needs at least one input and one hidden unit, got {} and {}", in,
        hidden);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const int64_t rows = gate_parts(kind) * hidden;
  weight_ih = uniform_parameter({rows, in}, bound, rng);
  weight_hh = uniform_parameter({rows, hidden}, bound, rng);
  if (bias == Bias::no) return;
  bias_ih = uniform_parameter(rows, bound, rng);
  bias_hh = uniform_parameter(rows, bound, rng);
}

Recurrent::Recurrent(RnnKind k, int64_t inputs, int64_t units, Rng& rng, const RnnOptions& o)
    : kind(k), in(inputs), hidden(units), layers(o.layers), directions(o.bidirectional ? 2 : 1) {
  check(layers > 0, "recurrent network: needs at least one layer, got {}", layers);
  check(o.dropout == 0 || layers > 1,
        "recurrent network: the dropout {} acts between layers, and there is one; give several "
        "layers, or put an nn::Dropout behind the network",
        o.dropout);
  const int64_t all = checked_product("recurrent network", layers, directions);
  for (int64_t i = 0; i < all; ++i)
    parameters.emplace_back(kind, i < directions ? in : hidden * directions, hidden, o.bias, rng);
  if (o.dropout != 0) dropout.emplace(o.dropout, rng);
}

RnnOutput Recurrent::operator()(const Tensor& x, const RnnInputs& inputs) const {
  mark.check_here();
  ModuleScope module(parameters[0].weight_ih);
  check(x.ndim() == 3 && x.size(2) == in, "recurrent network: x must be (B, T, {}), got {}{}", in,
        x.shape(), x.ndim() == 2 ? "; unsqueeze(x, 0) makes a batch of one" : "");
  const Shape shape{layers * directions, x.size(0), hidden};
  const int64_t steps = x.size(1);
  check_state("h", inputs.state.h, shape);
  check_state("c", inputs.state.c, shape);
  const bool lstm = kind == RnnKind::lstm;
  check_parts(lstm, inputs.state);
  const DType type = parameters[0].weight_ih.dtype();
  check(x.dtype() == type, "recurrent network: x is {}, the weights {}; convert one with .to()",
        x.dtype(), type);
  Tensor y = transpose(x, 0, 1);  // time first
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (layer > 0 && dropout) y = (*dropout)(y);
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < directions; ++d) {
      const int64_t i = layer * directions + d;
      const RnnLayerOptions options{layer_state(inputs.state.h, i), layer_state(inputs.state.c, i),
                                    inputs.lengths, d == 1};
      const RnnStates states =
          rnn_states(kind, y, parameters[static_cast<size_t>(i)].weights(), options);
      outputs.push_back(states.h);
      last_h.push_back(states.last_h);
      if (lstm) last_c.push_back(states.last_c);
    }
    y = directions == 1 ? outputs[0] : cat(outputs, 2);
  }
  y = transpose(y, 0, 1);
  y = inputs.lengths.defined() ? masked_fill(y, padding(inputs.lengths, steps), 0) : y.contiguous();
  return {y, {stack(last_h), lstm ? stack(last_c) : Tensor()}};
}

RnnState Recurrent::zeros(int64_t batch) const {
  mark.check_here();
  const Shape shape{layers * directions, batch, hidden};
  const Parameter& like = parameters[0].weight_hh;
  Tensor h = zero_state(shape, like);
  return {h, kind == RnnKind::lstm ? zero_state(shape, like) : Tensor()};
}

Rnn::Rnn(int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options,
         RnnNonlinearity nonlinearity)
    : Recurrent(kind_of(nonlinearity), in, hidden, rng, options) {}

Gru::Gru(int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options)
    : Recurrent(RnnKind::gru, in, hidden, rng, options) {}

Lstm::Lstm(int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options)
    : Recurrent(RnnKind::lstm, in, hidden, rng, options) {}

RnnCell::RnnCell(int64_t in, int64_t hidden, Rng& rng, Bias bias, RnnNonlinearity n)
    : parameters(kind_of(n), in, hidden, bias, rng), nonlinearity(n) {}

Tensor RnnCell::operator()(const Tensor& x, const Tensor& state) const {
  ModuleScope module(parameters.weight_ih);
  Tensor gates = gates_of(x, state_or_zeros("RnnCell", x, state, parameters), parameters);
  return nonlinearity == RnnNonlinearity::tanh ? tanh(gates) : relu(gates);
}

GruCell::GruCell(int64_t in, int64_t hidden, Rng& rng, Bias bias)
    : parameters(RnnKind::gru, in, hidden, bias, rng) {}

Tensor GruCell::operator()(const Tensor& x, const Tensor& state) const {
  ModuleScope module(parameters.weight_ih);
  Tensor h = state_or_zeros("GruCell", x, state, parameters);
  return gru_cell(input_product(x, parameters), linear(h, parameters.weight_hh, parameters.bias_hh),
                  h);
}

LstmCell::LstmCell(int64_t in, int64_t hidden, Rng& rng, Bias bias)
    : parameters(RnnKind::lstm, in, hidden, bias, rng) {}

RnnState LstmCell::operator()(const Tensor& x, const RnnState& state) const {
  ModuleScope module(parameters.weight_ih);
  check_parts(true, state);
  Tensor h = state_or_zeros("LstmCell", x, state.h, parameters);
  Tensor c = state_or_zeros("LstmCell", x, state.c, parameters);
  Tensor next = lstm_cell(gates_of(x, h, parameters), c);
  return {select(next, 0, 0), select(next, 0, 1)};
}

Tensor RnnCell::zeros(int64_t batch) const { return zero_state(batch, parameters); }
Tensor GruCell::zeros(int64_t batch) const { return zero_state(batch, parameters); }
RnnState LstmCell::zeros(int64_t batch) const {
  return {zero_state(batch, parameters), zero_state(batch, parameters)};
}

}  // namespace tern::nn
