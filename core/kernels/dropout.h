// Dropout whose mask is computed where it is needed and never stored. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// y[i] = scale * x[i] where a random word of the generator with this key is at least `first`, else
/// 0: first / 2^32 is the probability of 0. The same key gives the same mask, for any number
/// of threads. y may be x.
template <class T>
void dropout(const T* x, T* y, int64_t n, uint64_t key, uint32_t first, T scale);

}  // namespace tern::kernels
