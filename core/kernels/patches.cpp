#include <algorithm>
#include <type_traits>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/conv.h"

namespace tern::kernels {
namespace {

constexpr int64_t kGrain = 32768;  // elements that are worth a thread

/// Calls fn with the width of a patch: as a constant for the usual ones, so that a row of a patch
/// is copied by a few instructions.
template <class Fn>
void with_width(int64_t width, Fn fn) {
  if (width == 4) return fn(std::integral_constant<int64_t, 4>());
  if (width == 8) return fn(std::integral_constant<int64_t, 8>());
  if (width == 16) return fn(std::integral_constant<int64_t, 16>());
  fn(width);
}

/// Calls fn(offset in x, offset in the patches) for every row of every patch.
template <class Fn>
void each_row(const Conv& c, Fn fn) {
  const int64_t size = c.in * c.taps();  // of a patch
  const int64_t bands = c.batch * c.out_height;
  parallel_for(bands, 1 + kGrain / (c.out_width * size + 1), [&](int64_t first, int64_t last) {
    for (int64_t band = first; band < last; ++band) {
      const int64_t image = band / c.out_height, row = band % c.out_height * c.kernel[0];
      for (int64_t k = 0; k < c.in * c.kernel[0]; ++k) {
        const int64_t channel = image * c.in + k / c.kernel[0];
        const int64_t x = (channel * c.height + row + k % c.kernel[0]) * c.width;
        for (int64_t j = 0; j < c.out_width; ++j)
          fn(x + j * c.kernel[1], (band * c.out_width + j) * size + k * c.kernel[1]);
      }
    }
  });
}

}  // namespace

template <class T>
void gather_patches(const Conv& c, const T* x, T* patches) {
  with_width(c.kernel[1], [&](auto width) {
    each_row(c, [=](int64_t from, int64_t to) {
      for (int64_t i = 0; i < width; ++i) patches[to + i] = x[from + i];
    });
  });
}

template <class T>
void scatter_patches(const Conv& c, const T* patches, T* x) {
  if (c.out_height * c.kernel[0] != c.height || c.out_width * c.kernel[1] != c.width)
    std::fill(x, x + c.batch * c.in * c.plane(), T(0));
  with_width(c.kernel[1], [&](auto width) {
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
