// Positions of maxima over windows of equal size, and over adaptive windows. Inside of core only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tern/core/kernels/convolution/conv.h"

namespace tern::kernels {

/// For each window of the batch * in planes: the position in its plane of the largest element, of
/// the first of equals, or of the first NaN. Padding does not count.
template <class T>
void max_pool_positions(const Conv& c, const T* x, int64_t* positions);

/// Cuts the planes (depth, height, width) of contiguous x into out_size windows: for an axis of n
/// cut into m, window i is from floor(i * n / m) to ceil((i + 1) * n / m).
struct AdaptivePool {
  std::array<int64_t, 3> size, out_size;

  int64_t plane() const { return size[0] * size[1] * size[2]; }
  int64_t out_plane() const { return out_size[0] * out_size[1] * out_size[2]; }
  int64_t begin(std::size_t axis, int64_t i) const { return i * size[axis] / out_size[axis]; }
  int64_t end(std::size_t axis, int64_t i) const {
    return ((i + 1) * size[axis] - 1) / out_size[axis] + 1;
  }
};

/// For each window of each plane: the position in its plane of the largest element, of the first of
/// equals, or of the first NaN.
template <class T>
void adaptive_max_positions(const AdaptivePool& pool, int64_t planes, const T* x,
                            int64_t* positions);

}  // namespace tern::kernels
