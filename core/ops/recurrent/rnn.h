// Recurrent cells and layers as ops, with torch.nn's equations and gate order. T steps, B rows, C
// inputs, H units; sigma is the logistic function.
//
//   tanh, relu   h' = tanh or relu (W_ih x + b_ih + W_hh h + b_hh)
//   LSTM         i, f, g, o = the four parts of W_ih x + b_ih + W_hh h + b_hh
//                c' = sigma(f) c + sigma(i) tanh(g),  h' = sigma(o) tanh(c')
//                (Hochreiter & Schmidhuber 1997; Gers et al. 2000)
//   GRU          r, z = sigma of the first two parts of W_ih x + b_ih + W_hh h + b_hh
//                n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h' = (1 - z) n + z h
//                (Cho et al. 2014; the reset gate is applied after the product, as in cuDNN)
//
// The last axis of the gates has one part of H for each gate: i | f | g | o and r | z | n.
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

/// One LSTM step after the matrix products: gates (B, 4H) = W_ih x + b_ih + W_hh h + b_hh and c (B,
/// H) give (2, B, H): h' and c'.
Tensor lstm_cell(const Tensor& gates, const Tensor& c);

/// One GRU step: of_x = W_ih x + b_ih and of_h = W_hh h + b_hh, both (B, 3H), and h (B, H) give h'
/// (B, H).
Tensor gru_cell(const Tensor& of_x, const Tensor& of_h, const Tensor& h);

enum class RnnKind { tanh, relu, gru, lstm };

/// Number of gates, each H wide: 1, 3 (GRU) or 4 (LSTM).
int64_t gate_parts(RnnKind kind);

/// The weights of one layer in one direction, G = gate_parts(kind).
struct RnnWeights {
  Tensor w_ih;  ///< (GH, C)
  Tensor w_hh;  ///< (GH, H)
  Tensor b_ih;  ///< (GH), or undefined
  Tensor b_hh;  ///< (GH), or undefined
};

struct RnnLayerOptions {
  Tensor h0 = {};        ///< (B, H) initial state; undefined: zeros
  Tensor c0 = {};        ///< (B, H), LSTM only; undefined: zeros
  Tensor lengths = {};   ///< i64 (B), each in [0, T]; undefined: all T
  bool reverse = false;  ///< runs from the last step to the first
};

/// A layer over whole sequences x (T, B, C), time first. Returns the state after every step, at
/// that step's time: (T, B, H), or for an LSTM (2, T, B, H) with h and c.
/// With lengths, row b reads only steps 0 ... lengths[b] - 1, in reverse too. At the other times
/// its state does not change: it keeps the last one, or in reverse the initial one. So the final
/// state of every row is at time T - 1 (in reverse: 0).
///
/// One matrix product covers the inputs of all steps. Each step then takes one product and one
/// pass. The gradient of each weight is one product.
Tensor rnn_layer(RnnKind kind, const Tensor& x, const RnnWeights& weights,
                 const RnnLayerOptions& options = {});

struct RnnStates {
  Tensor h;       ///< (T, B, H) of every step
  Tensor last_h;  ///< (B, H) the final state of every row; without steps the initial one
  Tensor last_c;  ///< the same for an LSTM, else undefined
};
/// The parts of the result of rnn_layer.
RnnStates rnn_states(RnnKind kind, const Tensor& x, const RnnWeights& weights,
                     const RnnLayerOptions& options = {});

}  // namespace tern
