// Neural Turing Machine (Graves, Wayne & Danihelka 2014): a recurrent controller with a memory that
// it addresses by content and by place. B sequences, T steps, C controller units, N slots of width
// M, R reading and W writing heads. The memory's equations are in core/ops/ntm.h.
//
//   controller  h_t = LSTM([x_t; r_{t-1}]),  or tanh(W [x_t; r_{t-1}] + b) without a state
//   heads       a linear layer of h_t each: key | beta | gate | shift | gamma, then erase | add
//   memory      all heads address the memory of the last step; writes come before reads
//   output      y_t = W_o [h_t; r_t] + b_o
//
// At the start every head stands on slot 0; what was read and the controller's state are learned.
//
// Names: controller (an LSTMCell; controller.0, controller.1, ... if there are several layers; of
// Linear layers if it is feed-forward), read_heads.I, write_heads.I, output, initial_read (R, M),
// initial_h and initial_c (C), or (layers, C), initial_memory (N, M) if it is learned or random.
#pragma once

#include <optional>
#include <vector>

#include "tern/core/ops/ntm.h"
#include "tern/nn/nn.h"

namespace tern::models {

enum class NtmController { lstm, feed_forward };

/// What the memory holds at the start: 1e-6 everywhere; what is learned (from N(0, 0.5), cut at
/// 1, on); or numbers drawn so once, which stay. (The three of Collier & Beel 2018.)
enum class NtmStart { constant, learned, random };

struct NtmOptions {
  int64_t inputs = 0, outputs = 0;
  int64_t slots = 128, width = 20;  ///< N, M
  int64_t hidden = 100;             ///< C
  NtmController controller = NtmController::lstm;
  int64_t layers = 1;  ///< of the controller
  int64_t read_heads = 1, write_heads = 1;
  int64_t shift = 1;              ///< heads move by up to so many slots a step
  NtmAddressing addressing = {};  ///< which stages there are
  NtmStart start = NtmStart::constant;

  NtmMemory memory() const { return {slots, width, read_heads, write_heads, shift, addressing}; }
};

/// What goes from step to step; a value.
struct NtmState {
  std::vector<Tensor> h, c;  ///< (B, C) a layer of an LSTM
  Tensor memory;             ///< (B, ...) as ntm_step's; see ntm_parts

  int64_t batch() const { return memory.size(0); }
};

/// The memory after every step.
struct NtmTrace {
  Tensor read_weights;   ///< (B, T, R, N)
  Tensor write_weights;  ///< (B, T, W, N)
  Tensor memory;         ///< (B, T, N, M)
};

struct NtmRunOptions {
  std::optional<NtmState> state = {};  ///< to go on from
  bool trace = false;
};

struct NtmRun {
  Tensor output;  ///< (B, T, outputs)
  NtmState state;
  NtmTrace trace;  ///< if it was asked for
};

struct Ntm {
  NtmOptions options;
  std::vector<nn::LstmCell> lstm;  // the controller: these
  std::vector<nn::Linear> dense;   // or these
  std::vector<nn::Linear> read_heads, write_heads;
  nn::Linear output;
  nn::Parameter initial_read, initial_h, initial_c;
  nn::Parameter learned_memory;  // the start: one of these, or none
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

/// What the paper compares with: an LSTM of several layers and a linear output.
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
