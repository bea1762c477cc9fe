#include "tern/core/kernels/pooling.h"

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kPoolingGrain = 16384;  // elements per thread, at least

/// Whether v replaces `old`: it is larger, or the first NaN.
template <class T>
[[gnu::always_inline]] inline bool better(T v, T old) {
  return (v > old) | ((v != v) & (old == old));
}

/// largest[j], best[j]: the maximum of column j over the rows of a window, and its position.
template <class T>
[[gnu::always_inline]] inline void max_of_columns(const AdaptivePool& p, const T* x, int64_t d,
                                                  int64_t h, T* largest, int64_t* best) {
  const int64_t width = p.size[2];
  bool first = true;
  for (int64_t i = p.begin(0, d); i < p.end(0, d); ++i)
    for (int64_t k = p.begin(1, h); k < p.end(1, h); ++k, first = false) {
      const int64_t at = (i * p.size[1] + k) * width;
      if (first) {
        for (int64_t j = 0; j < width; ++j) largest[j] = x[at + j];
        for (int64_t j = 0; j < width; ++j) best[j] = at + j;
        continue;
      }
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        const T v = x[at + j], old = largest[j];
        const bool wins = better(v, old);
        largest[j] = wins ? v : old;
        best[j] = wins ? at + j : best[j];
      }
    }
}

/// Whether window i equals the previous one, as happens where an axis gets longer.
[[gnu::always_inline]] inline bool repeats(const AdaptivePool& p, size_t axis, int64_t i) {
  return i > 0 && p.begin(axis, i) == p.begin(axis, i - 1) && p.end(axis, i) == p.end(axis, i - 1);
}

template <class T>
[[gnu::always_inline]] inline void max_of_plane(const AdaptivePool& p, const T* x, T* largest,
                                                int64_t* best, int64_t* positions) {
  const int64_t width = p.out_size[2], rows = p.out_size[1];
  for (int64_t d = 0; d < p.out_size[0]; ++d)
    for (int64_t h = 0; h < rows; ++h, positions += width) {
      const int64_t back = repeats(p, 1, h) ? width : repeats(p, 0, d) ? rows * width : 0;
      if (back > 0) {
        for (int64_t w = 0; w < width; ++w) positions[w] = positions[w - back];
        continue;
      }
      max_of_columns(p, x, d, h, largest, best);
      for (int64_t w = 0; w < width; ++w) {
        int64_t m = p.begin(2, w);
        // Of equal columns, the one whose maximum is in the earlier row.
        for (int64_t j = m + 1; j < p.end(2, w); ++j) {
          const bool equal = (largest[j] == largest[m]) |
                             ((largest[j] != largest[j]) & (largest[m] != largest[m]));
          if (better(largest[j], largest[m]) || (equal && best[j] < best[m])) m = j;
        }
        positions[w] = best[m];
      }
    }
}

}  // namespace

template <class T>
void adaptive_max_positions(const AdaptivePool& pool, int64_t planes, const T* x,
                            int64_t* positions) {
  parallel_for(planes, 1 + kPoolingGrain / (pool.plane() + 1), [&](int64_t first, int64_t last) {
    Scratch<T> largest(pool.size[2]);
    Scratch<int64_t> best(pool.size[2]);
    simd([=, l = largest.data(), b = best.data()] {
      for (int64_t p = first; p < last; ++p)
        max_of_plane(pool, x + p * pool.plane(), l, b, positions + p * pool.out_plane());
    });
  });
}

template void adaptive_max_positions(const AdaptivePool&, int64_t, const float*, int64_t*);
template void adaptive_max_positions(const AdaptivePool&, int64_t, const double*, int64_t*);

}  // namespace tern::kernels
