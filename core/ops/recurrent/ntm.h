// The memory of a Neural Turing Machine (Graves, Wayne & Danihelka 2014, section 3). One op is one
// time step: all heads address the memory, writing heads write, reading heads read.
//
// B rows, N locations of width M, W writing heads, then R reading heads, H = W + R, shifts -S to S.
// A head has these numbers in a row of its parameters; sigma is the logistic function:
//   key k (M) | beta' | g' | s' (2S+1) | gamma'        and, if it writes, erase e' (M) | add a' (M)
//
// Addressing, from memory X and the head's last weighting w:
//   content        c(n) = softmax_n(softplus(beta') cos(k, X(n)))
//   interpolation  c <- sigma(g') c + (1 - sigma(g')) w
//   shift          c(n) <- sum_j softmax(s')(j) c(n - j), circular
//   sharpening     w'(n) = c(n)^gamma / sum, gamma = 1 + softplus(gamma')
// Every head addresses the memory of the previous step. Then the heads write one after the other,
//   X(n) <- X(n) (1 - w(n) sigma(e')) + w(n) tanh(a'),
// and reads r = sum_n w(n) X(n) use the new memory.
//
// cos(k, x) = k.x / (|k| |x| + 1e-8), where a norm of 0 has gradient 0. Weightings sum to 1. They
// and gradients are finite, even for zero keys and locations and for large beta and gamma.
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Which stages of addressing are used. A stage that is off passes its input on. Without the
/// content stage, the shift starts from the last weighting, and interpolation has no effect.
/// Without interpolation, it starts from the content weighting. The parameters of unused stages
/// stay in the row, with gradient 0.
struct [[nodiscard]] NtmAddressing {
  bool content = true, interpolation = true, shift = true, sharpening = true;
};

struct [[nodiscard]] NtmMemory {
  int64_t locations = 0, width = 0;  ///< N, M
  int64_t reads = 1, writes = 1;     ///< numbers of heads: R, W
  int64_t shift = 1;                 ///< S
  NtmAddressing addressing = {};

  int64_t heads() const { return reads + writes; }
  /// Numbers of parameters per row, for all heads; writing heads come first.
  int64_t parameters() const { return heads() * (width + 2 * shift + 4) + writes * 2 * width; }
  /// Size of the state per row.
  int64_t state() const { return reads * width + heads() * locations + locations * width; }
};

/// A state split into its parts.
struct NtmParts {
  Tensor reads;    ///< (B, R, M) the last reads
  Tensor weights;  ///< (B, H, N) the last weightings, writing heads first
  Tensor memory;   ///< (B, N, M)
};

/// heads (B, parameters()) and state (B, state()) give the next state. A state is one tensor that
/// moves from step to step; ntm_state joins its parts and ntm_parts splits them.
Tensor ntm_step(const Tensor& heads, const Tensor& state, const NtmMemory& memory);

/// Joins parts of these shapes into a state.
Tensor ntm_state(const NtmParts& parts);

/// Splits a state into views of its parts.
NtmParts ntm_parts(const Tensor& state, const NtmMemory& memory);

/// The last reads of a state, as a view (B, R M).
Tensor ntm_reads(const Tensor& state, const NtmMemory& memory);

}  // namespace tern
