// Connectionist temporal classification (Graves et al. 2006, equations 6 to 16) in logarithms.
// The target y of S symbols is spelt by 2S + 1 states, b y1 b y2 b ... yS b, with b the blank.
//   alpha[t][s]: probability of all paths that reach state s at time t, its symbol at t included
//   beta[t][s]:  probability of all paths from there to the end, its symbol at t included
// Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// N samples, T times, C classes; log_probs (T, N, C).
struct CtcShape {
  int64_t times, samples, classes, blank;
  const int64_t* targets;         ///< sample n's symbols begin at targets[starts[n]]
  const int64_t* starts;          ///< (N)
  const int64_t* input_lengths;   ///< (N), each at most T
  const int64_t* target_lengths;  ///< (N)
  int64_t states;                 ///< 2 max(target_lengths) + 1
};

/// log_p (N): logarithms of the targets' probabilities. alpha (N, T, states) is for ctc_backward.
template <class T>
void ctc_forward(const CtcShape& shape, const T* log_probs, double* log_p, double* alpha);

/// dlog_probs (T, N, C) of losses = -log_p, from dlosses (N). An infinite loss has a NaN gradient,
/// or a zero one with zero_infinity.
template <class T>
void ctc_backward(const CtcShape& shape, const T* log_probs, const double* alpha,
                  const double* log_p, const T* dlosses, bool zero_infinity, T* dlog_probs);

}  // namespace tern::kernels
