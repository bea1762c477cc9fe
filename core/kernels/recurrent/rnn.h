// The pointwise part of recurrent cells: everything around the matrix product of a time step, in
// one pass. B rows (sequences) of H units, contiguous; sigma is the logistic function.
//
// Every cell keeps the values that backward needs in the memory of its gates. A row of
// pre-activations becomes a row of activations (`gates` and `activated` may be the same). The row's
// gradient `dgates` has the same layout:
//   tanh, relu  (B, H)   h
//   LSTM        (B, 4H)  i | f | g | o
//   GRU         (B, 4H)  r | z | q | n, where q = W_hn h + b_hn is not activated
// In a GRU r, z and q are neighbours because W_hh h adds to them. q and n are separate because r
// multiplies only q. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// The rows of one time step. A row whose sequence has ended (time >= lengths[row]) keeps its
/// state. Backward passes the gradient of its state on; the gradient of its gates is 0.
struct StepRows {
  int64_t batch, hidden;
  int64_t time = 0;
  const int64_t* lengths = nullptr;  ///< (B); null: no sequence has ended

  bool ended(int64_t row) const { return lengths && time >= lengths[row]; }
};

enum class Squash { tanh, relu };

/// h' = squash(gates). `h` is read for ended rows.
template <class T>
struct RnnStep {
  const T* gates;
  const T* h;
  T* new_h;
};
template <class T>
void rnn_forward(const StepRows& rows, Squash squash, const RnnStep<T>& step);

/// Before the call, dh is the gradient of h' from later steps, and dy (or null) is the gradient of
/// the output. After it, dh is the gradient of h without the part dgates W_hh.
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

/// As RnnStepGradient. Before the call, dc is the gradient of c'; after it, the gradient of c.
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

/// Combines the rows r | z | n of a GRU's input and state, (B, 3H) each, to one row of gates:
/// x_r + h_r | x_z + h_z | h_n | x_n.
template <class T>
void gru_join(const StepRows& rows, const T* of_x, const T* of_h, T* gates);

/// Splits the gradient of the gates into the gradients of input and state.
template <class T>
void gru_part(const StepRows& rows, const T* dgates, T* dof_x, T* dof_h);

}  // namespace tern::kernels
