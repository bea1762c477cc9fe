// The memory of a Neural Turing Machine (Graves, Wayne & Danihelka 2014, section 3), one time step
// in one op: all heads address it, those that write do, those that read do.
//
// B rows, N slots of width M, W writing heads before R reading ones, H = W + R, shifts by -S ... S.
// A head has these numbers in a row of its parameters, sigma the logistic function:
//   key k (M) | beta' | g' | s' (2S+1) | gamma'        and, if it writes, erase e' (M) | add a' (M)
//
// Addressing, from memory X and the head's last weighting w:
//   content        c(n) = softmax_n(softplus(beta') cos(k, X(n)))
//   interpolation  c <- sigma(g') c + (1 - sigma(g')) w
//   shift          c(n) <- sum_j softmax(s')(j) c(n - j), around the ends
//   sharpening     w'(n) = c(n)^gamma / sum, gamma = 1 + softplus(gamma')
// Every head addresses the memory of the last step. Then the heads write one after the other,
//   X(n) <- X(n) (1 - w(n) sigma(e')) + w(n) tanh(a'),
// and reads r = sum_n w(n) X(n) see what was written.
//
// cos(k, x) = k.x / (|k| |x| + 1e-8), with the gradient of a norm 0 where that is 0. Weightings sum
// to 1 and are finite, and so are gradients: zero keys and slots, large beta and gamma included.
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Which stages of addressing there are. A stage that is off passes on what it gets: without
/// content that is the last weighting (then there is nothing to interpolate), without interpolation
/// the content's alone. Its numbers stay among the parameters; their gradient is 0.
struct NtmAddressing {
  bool content = true, interpolation = true, shift = true, sharpening = true;
};

struct NtmMemory {
  int64_t slots = 0, width = 0;   ///< N, M
  int64_t reads = 1, writes = 1;  ///< heads: R, W
  int64_t shift = 1;              ///< S
  NtmAddressing addressing = {};

  int64_t heads() const { return reads + writes; }
  /// Numbers that all heads take in a row: those of the writing heads come first.
  int64_t parameters() const { return heads() * (width + 2 * shift + 4) + writes * 2 * width; }
  /// Numbers of the state in a row.
  int64_t state() const { return reads * width + heads() * slots + slots * width; }
};

/// A state taken apart.
struct NtmParts {
  Tensor reads;    ///< (B, R, M) what was read last
  Tensor weights;  ///< (B, H, N) the last weightings, writing heads first
  Tensor memory;   ///< (B, N, M)
};

/// heads (B, parameters()) and state (B, state()) give the next state. A state is one tensor, since
/// it goes from step to step as a whole: ntm_state and ntm_parts put it together and take it apart.
Tensor ntm_step(const Tensor& heads, const Tensor& state, const NtmMemory& memory);

/// Parts of these shapes as a state.
Tensor ntm_state(const NtmParts& parts);

/// Views of the parts of a state.
NtmParts ntm_parts(const Tensor& state, const NtmMemory& memory);

/// What was read last, a view (B, R M).
Tensor ntm_reads(const Tensor& state, const NtmMemory& memory);

}  // namespace tern
