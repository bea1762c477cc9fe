// Cumulative sums, products and extremes along the middle axis of contiguous x (outer, n, inner).
// Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// y[i] = x[0] + ... + x[i], summed in double; integers wrap around.
template <class T, class Out>
void cumsum(const T* x, Out* y, int64_t outer, int64_t n, int64_t inner);

/// y[i] = x[0] ... x[i], multiplied in double; integers wrap around.
template <class T, class Out>
void cumprod(const T* x, Out* y, int64_t outer, int64_t n, int64_t inner);

/// y[i] = the largest (smallest) of x[0] to x[i] and its last index; NaN from the first NaN on.
template <class T>
void cumulative_extreme(bool largest, const T* x, T* y, int64_t* indices, int64_t outer, int64_t n,
                        int64_t inner);

}  // namespace tern::kernels
