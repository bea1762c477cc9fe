// Connectionist temporal classification (Graves et al. 2006, equations 6 to 16) in logarithms.
// A target y of S symbols is spelt by the states b y1 b y2 b ... yS b, 2S + 1 of them, b the blank.
//   alpha[t][s]: of all ways to be in state s at time t, symbol of s at t included
//   beta[t][s]:  of all ways from there to the end, symbol of s at t included
// Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// Of N samples over T times and C classes. log_probs (T, N, C).
struct CtcShape {
  int64_t times, samples, classes, blank;
  const int64_t* targets;         ///< the symbols of sample n begin at targets[starts[n]]
  const int64_t* starts;          ///< (N)
  const int64_t* input_lengths;   ///< (N), each at most T
  const int64_t* target_lengths;  ///< (N)
  int64_t states;                 ///< 2 max(target_lengths) + 1
};

/// log_p (N), the logarithms of the targets' probabilities; alpha (N, T, states) is left for the
/// backward pass.
template <class T>
void ctc_forward(const CtcShape& shape, const T* log_probs, double* log_p, double* alpha);

/// dlog_probs (T, N, C) of losses = -log_p, whose gradient is dlosses (N). An infinite loss has a
/// gradient of NaN, or none with zero_infinity.
template <class T>
void ctc_backward(const CtcShape& shape, const T* log_probs, const double* alpha,
                  const double* log_p, const T* dlosses, bool zero_infinity, T* dlog_probs);

}  // namespace tern::kernels
