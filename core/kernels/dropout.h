// Dropout whose mask is computed where it is needed and never stored. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// Which elements are dropped: number i of the whole where a random word of the generator with this
/// key is below `first`, so that first / 2^32 is the probability. The others are multiplied with
/// `scale`. The same mask gives the same zeros, for any number of threads and any cut of the whole.
struct DropMask {
  uint64_t key = 0;
  uint32_t first = 0;
  double scale = 1;
};

/// y = dropped x, n elements. y may be x.
template <class T>
void dropout(const T* x, T* y, int64_t n, const DropMask& mask);

/// The same for elements [begin, end) of the whole: x[0] and y[0] are number `begin`. On this
/// thread, in vector code. Cheapest where begin and end are multiples of kDropGroup.
template <class T>
void dropout_range(const T* x, T* y, int64_t begin, int64_t end, const DropMask& mask);
constexpr int64_t kDropGroup = 512;

/// How many rows of n, up to 32, to take at a time, so that they end with a group where that can
/// be.
inline int64_t rows_of_groups(int64_t n) {
  int64_t rows = 1;
  while (rows < 32 && (rows * n % kDropGroup != 0 || rows * n < 2 * kDropGroup)) rows *= 2;
  return rows;
}

/// sum = residual + dropped x; sum may be x or residual.
template <class T>
void dropout_add(const T* x, const T* residual, T* sum, int64_t n, const DropMask& mask);

}  // namespace tern::kernels
