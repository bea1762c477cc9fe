// Distances between points. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// y (batch, n, m) = |a_i - b_j|_p for contiguous a (batch, n, d) and b (batch, m, d). p >= 0 or
/// infinite; p = 0 counts the coordinates that differ.
template <class T>
void distances(double p, const T* a, const T* b, T* y, int64_t batch, int64_t n, int64_t m,
               int64_t d);

}  // namespace tern::kernels
