// Softmax along an axis, and its gradients. Lines along the axis are independent of each other.
// Sums are in double. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/loops.h"

namespace tern::kernels {

/// The lines of a contiguous x (outer, size, inner) along its middle axis. If inner is 1 they are
/// rows.
struct Lines {
  int64_t outer, size, inner;
};

/// The elements that count are those whose mask is not 0. The mask of element j of row i is at the
/// offset of element i in `rows`, plus j. With a mask, `inner` must be 1.
struct RowMask {
  const uint8_t* data = nullptr;  ///< null: all elements count
  Loops rows;
};

/// y = exp(x) / sum exp(x) over the elements that count, 0 elsewhere.
template <class T>
void softmax(const T* x, const RowMask& mask, T* y, const Lines& lines);

/// y = x - log sum exp(x) over the elements that count, -inf elsewhere.
template <class T>
void log_softmax(const T* x, const RowMask& mask, T* y, const Lines& lines);

/// dx = y (dy - sum(dy y)); dx may be dy.
template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, const Lines& lines);

/// dx = dy - exp(y) sum(dy); dx may be dy.
template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, const Lines& lines);

}  // namespace tern::kernels
