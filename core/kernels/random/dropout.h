// Dropout with a mask that is computed on the fly and never stored. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::kernels {

/// Drops element i of the whole array if random word i of the generator with this key is below
/// `first` (probability first / 2^32), and multiplies the others by `scale`. The same mask drops
/// the same elements for any number of threads and any partition.
struct DropMask {
  uint64_t key = 0;
  uint32_t first = 0;
  double scale = 1;
};

/// y = dropped x, for n elements. y may be x.
template <class T>
void dropout(const T* x, T* y, int64_t n, const DropMask& mask);

/// The same for elements [begin, end) of the whole array: x[0] and y[0] are element `begin`. Runs
/// on this thread, in vector code. Fastest if begin and end are multiples of kDropGroup.
template <class T>
void dropout_range(const T* x, T* y, int64_t begin, int64_t end, const DropMask& mask);
constexpr int64_t kDropGroup = 512;

/// The number of rows of n elements (up to 32) to process together, so that they end with a group
/// if possible.
inline int64_t rows_of_groups(int64_t n) {
  int64_t rows = 1;
  while (rows < 32 && (rows * n % kDropGroup != 0 || rows * n < 2 * kDropGroup)) rows *= 2;
  return rows;
}

/// sum = residual + dropped x; sum may be x or residual.
template <class T>
void dropout_add(const T* x, const T* residual, T* sum, int64_t n, const DropMask& mask);

}  // namespace tern::kernels
