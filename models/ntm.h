// Neural Turing Machine (Graves, Wayne & Danihelka 2014): a recurrent controller with a memory that
// it addresses by content and by location. B sequences, T steps, C controller units, N locations of
// width M, R reading and W writing heads. Equations of the memory: core/ops/recurrent/ntm.h.
//
//   controller  h_t = LSTM([x_t; r_{t-1}]),  or tanh(W [x_t; r_{t-1}] + b), which has no state
//   heads       a linear layer each of h_t: key | beta | gate | shift | gamma, then erase | add
//   memory      all heads address the memory of the previous step; writes come before reads
//   output      y_t = W_o [h_t; r_t] + b_o
//
// At the start every head points to location 0. The initial reads and controller state are learned.
//
// Names: controller (an LSTMCell, or Linear for a feed-forward controller; controller.0,
// controller.1, ... if it has several layers), read_heads.I, write_heads.I, output, initial_read
// (R, M), initial_h and initial_c (C) or (layers, C), initial_memory (N, M) if it is learned or
// random.
#pragma once

#include <optional>
#include <vector>

#include "tern/core/ops/recurrent/ntm.h"
#include "tern/nn/nn.h"

namespace tern::models {

enum class NtmController { lstm, feed_forward };

/// The initial memory: 1e-6 everywhere; learned, starting from N(0, 0.5) cut at 1; or random
/// numbers of that kind, drawn once and kept. (The three of Collier & Beel 2018.)
enum class NtmStart { constant, learned, random };

struct NtmOptions {
  int64_t inputs = 0, outputs = 0;
  int64_t locations = 128, width = 20;  ///< N, M
  int64_t hidden = 100;                 ///< C
  NtmController controller = NtmController::lstm;
  int64_t layers = 1;  ///< of the controller
  int64_t read_heads = 1, write_heads = 1;
  int64_t shift = 1;              ///< largest shift of a head per step
  NtmAddressing addressing = {};  ///< the stages to use
  NtmStart start = NtmStart::constant;

  NtmMemory memory() const {
    return {locations, width, read_heads, write_heads, shift, addressing};
  }
};

/// The state between steps; a value.
struct NtmState {
  std::vector<Tensor> h, c;  ///< (B, C) per LSTM layer
  Tensor memory;             ///< (B, ...) as in ntm_step; see ntm_parts

  int64_t batch() const { return memory.size(0); }
};

/// The memory after every step.
struct NtmTrace {
  Tensor read_weights;   ///< (B, T, R, N)
  Tensor write_weights;  ///< (B, T, W, N)
  Tensor memory;         ///< (B, T, N, M)
};

struct NtmRunOptions {
  std::optional<NtmState> state = {};  ///< the initial state
  bool trace = false;
};

struct NtmRun {
  Tensor output;  ///< (B, T, outputs)
  NtmState state;
  NtmTrace trace;  ///< if requested
};

struct Ntm {
  NtmOptions options;
  std::vector<nn::LstmCell> lstm;  // the controller: these
  std::vector<nn::Linear> dense;   // or these
  std::vector<nn::Linear> read_heads, write_heads;
  nn::Linear output;
  nn::Parameter initial_read, initial_h, initial_c;
  nn::Parameter learned_memory;  // the initial memory: one of these, or none
  nn::Buffer random_memory;

  Ntm(const NtmOptions& options, Rng& rng);
  /// y (B, T, outputs) of x (B, T, inputs).
  Tensor operator()(const Tensor& x) const { return run(x).output; }
  NtmRun run(const Tensor& x, const NtmRunOptions& options = {}) const;
  /// The state before the first step.
  NtmState start(int64_t batch) const;

  static void fields(auto& m, auto&& visit) {
    auto layers = [&](auto& list) {
      if (list.size() == 1)
        visit("controller", list[0]);
      else
        visit("controller", list);
    };
    layers(m.lstm);
    layers(m.dense);
    visit("read_heads", m.read_heads);
    visit("write_heads", m.write_heads);
    visit("output", m.output);
    visit("initial_read", m.initial_read);
    visit("initial_h", m.initial_h);
    visit("initial_c", m.initial_c);
    if (m.learned_memory.defined())
      visit("initial_memory", m.learned_memory);
    else
      visit("initial_memory", m.random_memory);
  }
};

/// The paper's baseline: an LSTM of several layers and a linear output.
struct LstmBaseline {
  nn::Lstm lstm;
  nn::Linear output;

  LstmBaseline(int64_t inputs, int64_t outputs, Rng& rng, int64_t hidden = 256, int64_t layers = 3);
  /// y (B, T, outputs) of x (B, T, inputs).
  Tensor operator()(const Tensor& x) const { return output(lstm(x).output); }
  static void fields(auto& m, auto&& visit) {
    visit("lstm", m.lstm);
    visit("output", m.output);
  }
};

}  // namespace tern::models
