// Softmax along the rows of contiguous x (rows, n), and its gradients. Rows are independent of each
// other. Sums are in double. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/loops.h"

namespace tern::kernels {

/// The elements that count are those whose mask is not 0. The mask of element j of row i is at the
/// offset of element i in `rows`, plus j.
struct RowMask {
  const uint8_t* data = nullptr;  ///< null: all elements count
  Loops rows;
};

/// y = exp(x) / sum exp(x) over the elements that count, 0 elsewhere.
template <class T>
void softmax(const T* x, const RowMask& mask, T* y, int64_t rows, int64_t n);

/// y = x - log sum exp(x) over the elements that count, -inf elsewhere.
template <class T>
void log_softmax(const T* x, const RowMask& mask, T* y, int64_t rows, int64_t n);

/// dx = y (dy - sum(dy y)); dx may be dy.
template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t n);

/// dx = dy - exp(y) sum(dy); dx may be dy.
template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t n);

}  // namespace tern::kernels
