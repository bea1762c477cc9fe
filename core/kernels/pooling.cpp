// Positions of maxima over windows: tap by tap for fixed windows; for adaptive ones first per
// column, then across columns.
#include "tern/core/kernels/pooling.h"

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/conv_taps.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kPoolingGrain = 16384;  // elements per thread, at least

/// Whether v replaces `old`: it is larger, or the first NaN.
template <class T>
[[gnu::always_inline]] inline bool better(T v, T old) {
  return (v > old) | ((v != v) & (old == old));
}

/// Calls fn(tap, offset in the plane) for each tap that reads the input.
template <class Fn>
[[gnu::always_inline]] inline void each_tap(const Conv& c, int64_t out_row, Fn fn) {
  for (int64_t kd = 0; kd < c.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < c.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < c.kernel[2]; ++kw) {
        const Tap t = tap_at(c, out_row, kd, kh, kw);
        if (t.row >= 0) fn(t, t.row * c.width() + t.first);
      }
}

/// Finds the positions for one plane. `largest` is working memory for a row of the output.
template <class T>
[[gnu::always_inline]] inline void max_plane(const Conv& c, const T* x, T* largest,
                                             int64_t* positions) {
  for (int64_t r = 0; r < c.out_rows(); ++r) {
    int64_t* best = positions + r * c.out_width();
    for (int64_t j = 0; j < c.out_width(); ++j) best[j] = -1;
    each_tap(c, r, [&](const Tap& t, int64_t at) {
#pragma omp simd
      for (int64_t j = t.begin; j < t.end; ++j) {
        const T v = x[at + j * c.stride[2]], old = largest[j];
        const bool wins = (best[j] < 0) | better(v, old);
        largest[j] = wins ? v : old;
        best[j] = wins ? at + j * c.stride[2] : best[j];
      }
    });
  }
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

/// Whether window i equals the previous one, which happens if an axis gets longer.
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
        // If columns are equal, chooses the one whose maximum is in the earlier row.
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
void max_pool_positions(const Conv& c, const T* x, int64_t* positions) {
  parallel_for(c.batch * c.in, 1 + kPoolingGrain / (c.out_plane() * c.taps() + 1),
               [&](int64_t first, int64_t last) {
                 Scratch<T> row(c.out_width());
                 std::fill(row.data(), row.data() + c.out_width(), T(0));
                 simd([=, largest = row.data()] {
                   for (int64_t p = first; p < last; ++p)
                     max_plane(c, x + p * c.plane(), largest, positions + p * c.out_plane());
                 });
               });
}

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

template void max_pool_positions(const Conv&, const float*, int64_t*);
template void max_pool_positions(const Conv&, const double*, int64_t*);
template void adaptive_max_positions(const AdaptivePool&, int64_t, const float*, int64_t*);
template void adaptive_max_positions(const AdaptivePool&, int64_t, const double*, int64_t*);

}  // namespace tern::kernels
