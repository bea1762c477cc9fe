// Copies non-overlapping windows to patches and back (conv.h), one row of a patch per copy.
#include <algorithm>
#include <type_traits>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/convolution/conv.h"

namespace tern::kernels {
namespace {

constexpr int64_t kMinWork = 8192;  // elements per thread, at least

/// Calls fn with the width of a patch: as a constant for common widths, so that a few instructions
/// copy a row of a patch.
template <class Fn>
void with_width(int64_t width, Fn fn) {
  if (width == 2) return fn(std::integral_constant<int64_t, 2>());
  if (width == 4) return fn(std::integral_constant<int64_t, 4>());
  if (width == 8) return fn(std::integral_constant<int64_t, 8>());
  if (width == 16) return fn(std::integral_constant<int64_t, 16>());
  fn(width);
}

/// Calls fn(offset in x, offset in the patches) for every row of every patch.
template <class Fn>
void each_row(const Conv& c, Fn fn) {
  const int64_t size = c.in * c.taps(), width = c.kernel[2];  // of a patch; of a row of it
  const int64_t rows = c.kernel[0] * c.kernel[1];
  const int64_t bands = c.batch * c.out_rows();
  parallel_for(bands, 1 + kMinWork / (c.out_width() * size + 1), [&](int64_t first, int64_t last) {
    for (int64_t band = first; band < last; ++band) {
      const int64_t image = band / c.out_rows(), out_row = band % c.out_rows();
      const int64_t depth = out_row / c.out_size[1] * c.kernel[0];
      const int64_t height = out_row % c.out_size[1] * c.kernel[1];
      for (int64_t k = 0; k < c.in * rows; ++k) {
        const int64_t channel = image * c.in + k / rows;
        const int64_t d = depth + k % rows / c.kernel[1], h = height + k % c.kernel[1];
        const int64_t x = ((channel * c.size[0] + d) * c.size[1] + h) * c.width();
        for (int64_t j = 0; j < c.out_width(); ++j)
          fn(x + j * width, (band * c.out_width() + j) * size + k * width);
      }
    }
  });
}

}  // namespace

template <class T>
void gather_patches(const Conv& c, const T* x, T* patches) {
  with_width(c.kernel[2], [&](auto width) {
    each_row(c, [=](int64_t from, int64_t to) {
      for (int64_t i = 0; i < width; ++i) patches[to + i] = x[from + i];
    });
  });
}

template <class T>
void scatter_patches(const Conv& c, const T* patches, T* x) {
  bool covered = true;
  for (size_t i = 0; i < 3; ++i) covered &= c.out_size[i] * c.kernel[i] == c.size[i];
  if (!covered) std::fill(x, x + c.batch * c.in * c.plane(), T(0));
  with_width(c.kernel[2], [&](auto width) {
    each_row(c, [=](int64_t to, int64_t from) {
      for (int64_t i = 0; i < width; ++i) x[to + i] = patches[from + i];
    });
  });
}

template void gather_patches(const Conv&, const float*, float*);
template void gather_patches(const Conv&, const double*, double*);
template void scatter_patches(const Conv&, const float*, float*);
template void scatter_patches(const Conv&, const double*, double*);

}  // namespace tern::kernels
