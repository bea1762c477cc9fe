// Recurrent networks, as torch.nn's RNN, GRU and LSTM (batch_first), and their cells. Equations and
// gate order: core/ops/recurrent/rnn.h. B batch, T steps, C inputs, H units, L layers, D directions
// (1 or 2).
//
//   nn::Lstm lstm(64, 128, rng, {.layers = 2, .bidirectional = true});
//   auto [y, state] = lstm(x, {.lengths = lengths});   // x (B,T,64) -> y (B,T,256)
//   auto [z, next] = lstm(more, {.state = state});     // continues from there
//
// Sequences of different length are padded to T and passed with `lengths`, i64 (B), each in [0, T];
// they need not be sorted or packed. Elements after a row's length are ignored: the output is zero
// there, the final state is that of the row's last step, and the reverse direction starts at that
// step. (The same results as PyTorch's packed sequences.)
//
// Weights are named weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, with _l1, ... for the
// layers and _reverse for the second direction; they start in U(±1/sqrt(H)).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/ops/recurrent/rnn.h"
#include "tern/nn/dropout.h"
#include "tern/nn/linear.h"
#include "tern/nn/moved_mark.h"

namespace tern::nn {

/// The state of a recurrent network, a value: (LD, B, H) each, layer by layer, forward before
/// reverse; (B, H) for a cell. An LSTM has h and c, others h alone. Undefined tensors mean zeros.
struct RnnState {
  Tensor h = {}, c = {};

  int64_t batch() const;
  /// The state of sequences rows[0], rows[1], ... (i64), to continue decoding.
  RnnState select_rows(const Tensor& rows) const;
  /// The same values without history: gradients end here, as for the next part of a long text.
  RnnState detach() const;
};

struct RnnOutput {
  Tensor output;   ///< (B, T, DH), the last layer's h at every step: forward | reverse
  RnnState state;  ///< after the last step
};

struct RnnInputs {
  RnnState state = {};  ///< initial state
  Tensor lengths = {};  ///< i64 (B); undefined: all rows have T steps
};

struct RnnOptions {
  int64_t layers = 1;
  bool bidirectional = false;
  double dropout = 0;  ///< on the output of every layer but the last; Error with one layer
  Bias bias = Bias::yes;
};

enum class RnnNonlinearity { tanh, relu };

/// The four weights of a layer in one direction, or of a cell.
struct RnnParameters {
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

  RnnParameters(RnnKind kind, int64_t in, int64_t hidden, Bias bias, Rng& rng);
  RnnWeights weights() const { return {weight_ih, weight_hh, bias_ih, bias_hh}; }
  static void fields(auto& m, auto&& visit, const std::string& suffix = "") {
    visit("weight_ih" + suffix, m.weight_ih);
    visit("weight_hh" + suffix, m.weight_hh);
    visit("bias_ih" + suffix, m.bias_ih);
    visit("bias_hh" + suffix, m.bias_hh);
  }
};

/// Base of Rnn, Gru and Lstm: everything but the kind.
struct Recurrent {
  detail::MovedMark mark{"recurrent network"};
  RnnKind kind;
  int64_t in, hidden, layers, directions;
  std::vector<RnnParameters> parameters;  ///< in the order of RnnState's first axis
  std::optional<Dropout> dropout;

  Recurrent(RnnKind kind, int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options);
  /// x (B, T, C).
  RnnOutput operator()(const Tensor& x, const RnnInputs& inputs = {}) const;
  /// A zero state for this many sequences, in the type of the weights.
  RnnState zeros(int64_t batch) const;
  static void fields(auto& m, auto&& visit) {
    m.mark.check_here();
    int64_t i = 0;
    for (auto& p : m.parameters) {
      const std::string reverse = i % m.directions ? "_reverse" : "";
      RnnParameters::fields(p, visit, "_l" + std::to_string(i / m.directions) + reverse);
      ++i;
    }
    visit("dropout", m.dropout);
  }
};

struct Rnn : Recurrent {
  Rnn(int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options = {},
      RnnNonlinearity nonlinearity = RnnNonlinearity::tanh);
};

struct Gru : Recurrent {
  Gru(int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options = {});
};

struct Lstm : Recurrent {
  Lstm(int64_t in, int64_t hidden, Rng& rng, const RnnOptions& options = {});
};

/// One step: x (B, C), h (B, H) or undefined -> h' (B, H). Weights: weight_ih, weight_hh, bias_ih,
/// bias_hh.
struct RnnCell {
  RnnParameters parameters;
  RnnNonlinearity nonlinearity;

  RnnCell(int64_t in, int64_t hidden, Rng& rng, Bias bias = Bias::yes,
          RnnNonlinearity nonlinearity = RnnNonlinearity::tanh);
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const;
  Tensor zeros(int64_t batch) const;  ///< zero state (batch, H)
  static void fields(auto& m, auto&& visit) { visit("", m.parameters); }
};

struct GruCell {
  RnnParameters parameters;

  GruCell(int64_t in, int64_t hidden, Rng& rng, Bias bias = Bias::yes);
  Tensor operator()(const Tensor& x, const Tensor& h = {}) const;
  Tensor zeros(int64_t batch) const;  ///< zero state (batch, H)
  static void fields(auto& m, auto&& visit) { visit("", m.parameters); }
};

struct LstmCell {
  RnnParameters parameters;

  LstmCell(int64_t in, int64_t hidden, Rng& rng, Bias bias = Bias::yes);
  RnnState operator()(const Tensor& x, const RnnState& state = {}) const;
  RnnState zeros(int64_t batch) const;  ///< zero state: h and c (batch, H)
  static void fields(auto& m, auto&& visit) { visit("", m.parameters); }
};

}  // namespace tern::nn
