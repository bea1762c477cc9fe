// The pointwise part of recurrent cells: what stands around the matrix product of a time step, in
// one pass. B rows (sequences) of H units without gaps; sigma is the logistic function.
//
// Every cell keeps what its backward needs in the memory of its gates: a row of pre-activations
// becomes the row of what they were activated to (`gates` and `activated` may be the same), and
// that row's gradient `dgates` is laid out in the same way:
//   tanh, relu  (B, H)   h
//   LSTM        (B, 4H)  i | f | g | o
//   GRU         (B, 4H)  r | z | q | n, where q = W_hn h + b_hn goes in and out as it is
// A GRU's r, z and q lie together because they get W_hh h, q and n apart because r meets q alone.
// Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// The rows of one time step. A row whose sequence has ended (time >= lengths[row]) keeps its
/// state; on the way back it passes the state's gradient on, and its gates' is 0.
struct StepRows {
  int64_t batch, hidden;
  int64_t time = 0;
  const int64_t* lengths = nullptr;  ///< (B); null: no sequence has ended

  bool ended(int64_t row) const { return lengths && time >= lengths[row]; }
};

enum class Squash { tanh, relu };

/// h' = squash(gates). `h` is read for rows that have ended.
template <class T>
struct RnnStep {
  const T* gates;
  const T* h;
  T* new_h;
};
template <class T>
void rnn_forward(const StepRows& rows, Squash squash, const RnnStep<T>& step);

/// dh holds the gradient of h' from later steps, dy (or null) that of the output; on return it
/// holds what goes to h besides dgates W_hh.
template <class T>
struct RnnStepGradient {
  const T* new_h;
  const T* dy;
  T* dh;
  T* dgates;
};
template <class T>
void rnn_backward(const StepRows& rows, Squash squash, const RnnStepGradient<T>& step);

/// i, f, o = sigma, g = tanh of the gates;  c' = f c + i g,  h' = o tanh(c').
template <class T>
struct LstmStep {
  const T* gates;
  const T* h;
  const T* c;
  T* activated;
  T* new_h;
  T* new_c;
};
template <class T>
void lstm_forward(const StepRows& rows, const LstmStep<T>& step);

/// As RnnStepGradient; dc likewise holds the gradient of c' and then that of c.
template <class T>
struct LstmStepGradient {
  const T* activated;
  const T* c;
  const T* new_c;
  const T* dy_h;
  const T* dy_c;
  T* dh;
  T* dc;
  T* dgates;
};
template <class T>
void lstm_backward(const StepRows& rows, const LstmStepGradient<T>& step);

/// r, z = sigma, n = tanh(n + r q);  h' = (1 - z) n + z h.
template <class T>
struct GruStep {
  const T* gates;
  const T* h;
  T* activated;
  T* new_h;
};
template <class T>
void gru_forward(const StepRows& rows, const GruStep<T>& step);

template <class T>
struct GruStepGradient {
  const T* activated;
  const T* h;
  const T* dy;
  T* dh;
  T* dgates;
};
template <class T>
void gru_backward(const StepRows& rows, const GruStepGradient<T>& step);

/// The rows r | z | n of a GRU's input and of its state, (B, 3H) each, as one row of gates:
/// x_r + h_r | x_z + h_z | h_n | x_n.
template <class T>
void gru_join(const StepRows& rows, const T* of_x, const T* of_h, T* gates);

/// The gradients of both from that of the gates.
template <class T>
void gru_part(const StepRows& rows, const T* dgates, T* dof_x, T* dof_h);

}  // namespace tern::kernels
