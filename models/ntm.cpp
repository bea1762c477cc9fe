// The Neural Turing Machine over a sequence, and its LSTM baseline. Products of the inputs are
// computed for all steps at once.
#include "tern/models/ntm.h"

#include "tern/core/tape/substitution.h"
#include "tern/models/parts.h"
#include "tern/nn/init.h"

namespace tern::models {
namespace {

const NtmOptions& checked(const NtmOptions& o) {
  check(o.inputs >= 1 && o.outputs >= 1 && o.hidden >= 1 && o.layers >= 1 && o.locations >= 1 &&
            o.width >= 1,
        "Ntm: all sizes must be at least 1, got {} inputs, {} outputs, {} layers of {} units, {} "
        "locations of width {}",
        o.inputs, o.outputs, o.layers, o.hidden, o.locations, o.width);
  check(o.read_heads >= 1 && o.write_heads >= 1 && o.shift >= 0,
        "Ntm: needs a head of each kind and shifts of 0 or more, got {} reading and {} writing "
        "heads, shifts up to {}",
        o.read_heads, o.write_heads, o.shift);
  return o;
}

Tensor drawn_memory(const NtmOptions& o, Rng& rng) {
  Tensor x = empty({o.locations, o.width});
  nn::init::trunc_normal(x, rng, {.std = 0.5, .low = -1, .high = 1});
  return x;
}

/// Weights in the form that every step uses, computed once.
struct ControllerWeights {
  Tensor of_read;          // columns of the controller's first weight for reads
  Tensor heads, bias;      // the weights of all heads, writing heads first
  Tensor of_input, start;  // the other columns, and the biases

  explicit ControllerWeights(const Ntm& m) {
    const NtmOptions& o = m.options;
    const Tensor& first = m.lstm.empty() ? m.dense[0].weight : m.lstm[0].parameters.weight_ih;
    tern::detail::check_unhooked("Ntm", first, "use a WeightsInstead");
    of_input = narrow(first, 1, 0, o.inputs);
    of_read = narrow(first, 1, o.inputs, o.read_heads * o.width);
    start = m.lstm.empty() ? m.dense[0].bias
                           : m.lstm[0].parameters.bias_ih + m.lstm[0].parameters.bias_hh;
    std::vector<Tensor> weights, biases;
    for (const auto* heads : {&m.write_heads, &m.read_heads})
      for (const nn::Linear& head : *heads) {
        tern::detail::check_unhooked("Ntm", head.weight, "use a WeightsInstead");
        weights.push_back(head.weight);
        biases.push_back(head.bias);
      }
    this->heads = cat(weights, 0);
    bias = cat(biases, 0);
  }
};

/// The controller's output (B, C) for one step. of_input: the input's part of the first layer.
Tensor control(const Ntm& m, const ControllerWeights& w, const Tensor& of_input,
               const Tensor& reads, NtmState& state) {
  Tensor x = linear(reads, w.of_read, {}, {.residual = of_input});
  if (m.lstm.empty()) {
    x = tanh(x);
    for (size_t i = 1; i < m.dense.size(); ++i) x = m.dense[i](x, {.activation = Activation::tanh});
    return x;
  }
  for (size_t i = 0; i < m.lstm.size(); ++i) {
    nn::RnnState next;
    if (i == 0) {
      Tensor gates = linear(state.h[0], m.lstm[0].parameters.weight_hh, {}, {.residual = x});
      Tensor both = lstm_cell(gates, state.c[0]);
      next = {select(both, 0, 0), select(both, 0, 1)};
    } else {
      next = m.lstm[i](x, {state.h[i], state.c[i]});
    }
    x = state.h[i] = next.h;
    state.c[i] = next.c;
  }
  return x;
}

NtmTrace trace_of(const std::vector<Tensor>& states, const NtmMemory& memory) {
  const int64_t batch = states[0].size(0), steps = std::ssize(states);
  NtmParts parts = ntm_parts(flatten(stack(states, 1), 0, 1), memory);
  auto in_time = [&](const Tensor& t) { return unflatten(t, 0, {batch, steps}); };
  Tensor weights = in_time(parts.weights);
  return {narrow(weights, 2, memory.writes, memory.reads), narrow(weights, 2, 0, memory.writes),
          in_time(parts.memory)};
}

}  // namespace

Ntm::Ntm(const NtmOptions& o, Rng& rng)
    : options(checked(o)),
      output(o.hidden + o.read_heads * o.width, o.outputs, rng),
      initial_read(normal_parameter({o.read_heads, o.width}, 0.1, rng)) {
  const bool recurrent = o.controller == NtmController::lstm;
  for (int64_t i = 0; i < o.layers; ++i) {
    const int64_t in = i == 0 ? o.inputs + o.read_heads * o.width : o.hidden;
    if (recurrent)
      lstm.emplace_back(in, o.hidden, rng);
    else
      dense.emplace_back(in, o.hidden, rng);
  }
  const int64_t address = o.width + 2 * o.shift + 4;
  for (int64_t i = 0; i < o.read_heads; ++i) read_heads.emplace_back(o.hidden, address, rng);
  for (int64_t i = 0; i < o.write_heads; ++i)
    write_heads.emplace_back(o.hidden, address + 2 * o.width, rng);
  if (recurrent) {
    const Shape shape = o.layers == 1 ? Shape{o.hidden} : Shape{o.layers, o.hidden};
    initial_h = normal_parameter(shape, 0.1, rng);
    initial_c = normal_parameter(shape, 0.1, rng);
  }
  if (o.start == NtmStart::learned) learned_memory = nn::Parameter(drawn_memory(o, rng));
  if (o.start == NtmStart::random) random_memory = nn::Buffer(drawn_memory(o, rng));
}

NtmState Ntm::start(int64_t batch) const {
  const NtmOptions& o = options;
  const DType type = initial_read.dtype();
  NtmState s;
  for (size_t i = 0; i < lstm.size(); ++i)
    for (auto [initial, list] : {std::pair{&initial_h, &s.h}, {&initial_c, &s.c}}) {
      const Tensor& all = *initial;
      Tensor one = lstm.size() == 1 ? all : select(all, 0, static_cast<int64_t>(i));
      list->push_back(expand(one, {batch, o.hidden}));
    }
  Tensor memory = learned_memory.defined()  ? learned_memory.tensor()
                  : random_memory.defined() ? random_memory.tensor()
                                            : full({o.locations, o.width}, 1e-6, type);
  Tensor first = unsqueeze(one_hot(zeros({o.memory().heads()}, DType::i64), o.locations, type), 0);
  s.memory = ntm_state({expand(unsqueeze(initial_read, 0), {batch, o.read_heads, o.width}),
                        expand(first, {batch, o.memory().heads(), o.locations}),
                        expand(unsqueeze(memory, 0), {batch, o.locations, o.width})});
  return s;
}

NtmRun Ntm::run(const Tensor& x, const NtmRunOptions& run_options) const {
  const NtmOptions& o = options;
  const NtmMemory memory = o.memory();
  check(x.ndim() == 3 && x.size(1) >= 1 && x.size(2) == o.inputs,
        "Ntm: the input must be (B, T >= 1, {}), got {}", o.inputs, x.shape());
  NtmState state = run_options.state ? *run_options.state : start(x.size(0));
  check(state.batch() == x.size(0), "Ntm: the state has {} sequences, but the input has {}",
        state.batch(), x.size(0));
  const ControllerWeights w(*this);
  // Time first, so that a step's part is contiguous.
  Tensor of_inputs = linear(transpose(x, 0, 1), w.of_input, w.start);
  Tensor reads = ntm_reads(state.memory, memory);
  std::vector<Tensor> seen, states;
  for (int64_t t = 0; t < x.size(1); ++t) {
    Tensor h = control(*this, w, select(of_inputs, 0, t), reads, state);
    state.memory = ntm_step(linear(h, w.heads, w.bias), state.memory, memory);
    reads = ntm_reads(state.memory, memory);
    seen.push_back(h);
    seen.push_back(reads);
    if (run_options.trace) states.push_back(state.memory);
  }
  Tensor y = output(unflatten(cat(seen, 1), 1, {x.size(1), -1}));
  return {y, state, run_options.trace ? trace_of(states, memory) : NtmTrace()};
}

LstmBaseline::LstmBaseline(int64_t inputs, int64_t outputs, Rng& rng, int64_t hidden,
                           int64_t layers)
    : lstm(inputs, hidden, rng, {.layers = layers}), output(hidden, outputs, rng) {}

}  // namespace tern::models
