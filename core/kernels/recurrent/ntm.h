// One step of a Neural Turing Machine's memory, forward and backward, row by row of the batch.
// Equations: core/ops/recurrent/ntm.h. Memory is stored as (M, N), slots last, so that all loops
// run over slots. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// B rows, N slots of width M, R read and W write heads, shifts up to S slots.
struct NtmSize {
  int64_t batch, slots, width, reads, writes, shift;
  bool content, interpolation, shifting, sharpening;  ///< stages of addressing in use

  int64_t heads() const { return writes + reads; }
  int64_t kernel() const { return 2 * shift + 1; }
  int64_t address() const { return width + kernel() + 3; }  ///< numbers per head for addressing
  /// The offset of head h in a row of parameters. Writing heads come first.
  int64_t head(int64_t h) const { return h * address() + (h < writes ? h : writes) * 2 * width; }
  int64_t parameters() const { return head(heads()); }
  /// A row of the state: last reads (R, M) | weightings (W + R, N) | memory (M, N).
  int64_t weights_at() const { return reads * width; }
  int64_t memory_at() const { return weights_at() + heads() * slots; }
  int64_t state() const { return memory_at() + width * slots; }
};

/// heads (B, parameters), state and next (B, state).
template <class T>
void ntm_forward(const NtmSize& size, const T* heads, const T* state, T* next);

/// The gradients of heads and state, from `d`, the gradient of `next`. `dstate` may be `d`.
template <class T>
void ntm_backward(const NtmSize& size, const T* heads, const T* state, const T* next, const T* d,
                  T* dheads, T* dstate);

}  // namespace tern::kernels
