// Recurrent cells and layers as ops: torch.nn's equations and gate order. T steps, B rows, C
// inputs, H units, sigma the logistic function.
//
//   tanh, relu   h' = tanh or relu (W_ih x + b_ih + W_hh h + b_hh)
//   LSTM         i, f, g, o = the four parts of W_ih x + b_ih + W_hh h + b_hh
//                c' = sigma(f) c + sigma(i) tanh(g),  h' = sigma(o) tanh(c')
//                (Hochreiter & Schmidhuber 1997; Gers et al. 2000)
//   GRU          r, z = sigma of the first two parts of W_ih x + b_ih + W_hh h + b_hh
//                n = tanh(W_in x + b_in + r (W_hn h + b_hn)),  h' = (1 - z) n + z h
//                (Cho et al. 2014, with the reset gate behind the product as in cuDNN)
//
// Gates lie in parts of H along the last axis: i | f | g | o and r | z | n.
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

/// One LSTM step from the finished products: gates (B, 4H) = W_ih x + b_ih + W_hh h + b_hh and
/// c (B, H) give (2, B, H): h' and c'.
Tensor lstm_cell(const Tensor& gates, const Tensor& c);

/// One GRU step: of_x = W_ih x + b_ih and of_h = W_hh h + b_hh, (B, 3H) each, and h (B, H) give
/// h' (B, H).
Tensor gru_cell(const Tensor& of_x, const Tensor& of_h, const Tensor& h);

enum class RnnKind { tanh, relu, gru, lstm };

/// Parts of H in the gates: 1, 3 (GRU) or 4 (LSTM).
int64_t gate_parts(RnnKind kind);

/// The weights of one layer in one direction, G = gate_parts(kind).
struct RnnWeights {
  Tensor w_ih;  ///< (GH, C)
  Tensor w_hh;  ///< (GH, H)
  Tensor b_ih;  ///< (GH), or undefined
  Tensor b_hh;  ///< (GH), or undefined
};

struct RnnLayerOptions {
  Tensor h0 = {};        ///< (B, H) the state at the start; undefined: zeros
  Tensor c0 = {};        ///< (B, H), LSTM only; undefined: zeros
  Tensor lengths = {};   ///< i64 (B), each in [0, T]; undefined: all T
  bool reverse = false;  ///< from the last step to the first
};

/// A layer over whole sequences x (T, B, C), time first: the state after every step, at the time of
/// that step, (T, B, H); for an LSTM (2, T, B, H): h and c.
/// With lengths, row b sees steps 0 ... lengths[b] - 1 alone, backwards too. At the other times its
/// state stands still: it is the last one there, or in reverse the first. So the state at the end
/// is that at time T - 1 (in reverse: 0) for every row.
///
/// The input's products are one matrix product for all steps, a step is one product and one pass,
/// and the weights' gradients are one product each.
Tensor rnn_layer(RnnKind kind, const Tensor& x, const RnnWeights& weights,
                 const RnnLayerOptions& options = {});

}  // namespace tern
