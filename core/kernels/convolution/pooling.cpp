// Positions of maxima over windows: first the maxima of columns, then those of the windows.
#include "tern/core/kernels/convolution/pooling.h"

#include <algorithm>
#include <limits>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/convolution/conv_taps.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kPoolingGrain = 16384;  // elements per thread, at least

/// Whether v replaces `old`: it is larger, or the first NaN.
template <class T>
[[gnu::always_inline]] inline bool better(T v, T old) {
  return (v > old) | ((v != v) & (old == old));
}

/// Whether they count as equal: NaN equals NaN.
template <class T>
[[gnu::always_inline]] inline bool equal(T a, T b) {
  return (a == b) | ((a != a) & (b != b));
}

constexpr int64_t kBlock = 16;  // columns of whole vectors
int64_t padded(int64_t columns) { return ceil_div(columns, kBlock) * kBlock; }

/// Maxima of the columns of some rows of a plane, and their positions in the plane: rows come in
/// whole vectors, whatever the stride of the windows. Columns are padded to whole blocks; those
/// outside of the plane have position -1.
template <class T, class Index>
struct ColumnMaxima {
  T* largest;
  Index* best;
  int64_t width;

  /// Sets `columns` columns around those of the plane, which begin at `margin`.
  [[gnu::always_inline]] inline void clear(int64_t columns, int64_t margin) const {
    for (int64_t j = 0; j < columns; ++j) {
      largest[j - margin] = 0;
      best[j - margin] = -1;
    }
  }

  /// Takes in the row at position `at` of a plane. `room` elements can be read from `row` on.
  [[gnu::always_inline]] inline void add_row(const T* row, int64_t room, int64_t at,
                                             bool is_first) const {
    T last[kBlock] = {};
    for (int64_t j = 0; j < width; j += kBlock) {
      const T* from = row + j;
      if (j + kBlock > room) {
        for (int64_t i = 0; i < width - j; ++i) last[i] = from[i];
        from = last;
      }
      T* l = largest + j;
      Index* b = best + j;
      const auto begin = static_cast<Index>(at + j);
      const auto inside = static_cast<Index>(width - j);
#pragma omp simd
      for (Index i = 0; i < kBlock; ++i) {
        const T v = from[i], old = l[i];
        const bool larger = better(v, old), is_column = i < inside;
        const bool wins = is_column & (is_first | larger);
        l[i] = wins ? v : old;
        b[i] = wins ? begin + i : b[i];
      }
    }
  }
};

/// The largest of a block of windows so far, and their positions.
template <class T, class Index>
struct WindowMaxima {
  T largest[kBlock];
  Index best[kBlock];

  [[gnu::always_inline]] inline void clear() {
    for (int64_t i = 0; i < kBlock; ++i) {
      largest[i] = 0;
      best[i] = -1;
    }
  }

  /// Takes in a column of each window. Of equal columns the one whose maximum is in the earlier row
  /// wins.
  [[gnu::always_inline]] inline void add(const T* from, const Index* at, int64_t stride,
                                         int64_t count) {
    T* l = largest;
    Index* b = best;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const T v = from[i * stride], old = l[i];
      const Index p = at[i * stride], last = b[i];
      const bool larger = better(v, old), same = equal(v, old);
      const bool is_column = p >= 0, is_first = last < 0, is_earlier = p < last;
      const bool wins = is_column & (is_first | larger | (same & is_earlier));
      l[i] = wins ? v : old;
      b[i] = wins ? p : last;
    }
  }

  /// Takes in two neighbouring columns of each window, with a stride of 2.
  [[gnu::always_inline]] inline void add_pairs(const T* from, const Index* at, bool both) {
    T values[2][kBlock];
    Index places[2][kBlock];
    for (int64_t i = 0; i < kBlock; ++i) {
      values[0][i] = from[2 * i];
      values[1][i] = from[2 * i + 1];
      places[0][i] = at[2 * i];
      places[1][i] = at[2 * i + 1];
    }
    add(values[0], places[0], 1, kBlock);
    if (both) add(values[1], places[1], 1, kBlock);
  }
};

/// The positions of the largest of the windows of one row. kPairs: columns are read two by two.
template <bool kPairs, class T, class Index>
[[gnu::always_inline]] inline void max_of_windows(const ColumnMaxima<T, Index>& columns,
                                                  const Conv& c, int64_t* positions) {
  const int64_t n = c.out_width(), taps = c.kernel[2], stride = c.stride[2];
  for (int64_t j = 0; j < n; j += kBlock) {
    const int64_t count = std::min(kBlock, n - j);
    WindowMaxima<T, Index> windows;
    windows.clear();
    for (int64_t k = 0; k < taps; k += kPairs ? 2 : 1) {
      const int64_t at = j * stride + k * c.dilation[2] - c.padding[2];
      if constexpr (kPairs)
        windows.add_pairs(columns.largest + at, columns.best + at, k + 1 < taps);
      else
        windows.add(columns.largest + at, columns.best + at, stride, count);
    }
    for (int64_t i = 0; i < count; ++i) positions[j + i] = windows.best[i];
  }
}

bool in_pairs(const Conv& c) { return c.stride[2] == 2 && c.dilation[2] == 1; }

template <bool kPairs, class T, class Index>
[[gnu::always_inline]] inline void max_plane(const Conv& c, const T* x, int64_t room,
                                             const ColumnMaxima<T, Index>& columns,
                                             int64_t* positions) {
  for (int64_t r = 0; r < c.out_rows(); ++r, positions += c.out_width()) {
    bool is_first = true;
    for (int64_t kd = 0; kd < c.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < c.kernel[1]; ++kh)
        if (const int64_t row = tap_row(c, r, kd, kh); row >= 0) {
          const int64_t at = row * c.width();
          columns.add_row(x + at, room - at, at, is_first);
          is_first = false;
        }
    max_of_windows<kPairs>(columns, c, positions);
  }
}

/// `positions` of planes first to last, with indices that hold a plane's size.
template <class Index, class T>
void max_planes(const Conv& c, const T* x, int64_t first, int64_t last, int64_t* positions) {
  // Columns in whole blocks, also of windows that are computed in whole blocks.
  const int64_t windows = in_pairs(c) ? padded(c.out_width()) : c.out_width();
  const int64_t room = c.padding[2] + padded(c.width()) + (windows - 1) * c.stride[2] +
                       (c.kernel[2] - 1) * c.dilation[2] + 2;
  Scratch<T> largest(room);
  Scratch<Index> best(room);
  const ColumnMaxima<T, Index> columns{largest.data() + c.padding[2], best.data() + c.padding[2],
                                       c.width()};
  const int64_t all = c.batch * c.in * c.plane();
  simd([=] {
    columns.clear(room, c.padding[2]);
    for (int64_t p = first; p < last; ++p) {
      const int64_t at = p * c.plane();
      int64_t* out = positions + p * c.out_plane();
      if (in_pairs(c))
        max_plane<true>(c, x + at, all - at, columns, out);
      else
        max_plane<false>(c, x + at, all - at, columns, out);
    }
  });
}

/// Whether window i equals the previous one, which happens if an axis gets longer.
[[gnu::always_inline]] inline bool repeats(const AdaptivePool& p, size_t axis, int64_t i) {
  return i > 0 && p.begin(axis, i) == p.begin(axis, i - 1) && p.end(axis, i) == p.end(axis, i - 1);
}

template <class T>
[[gnu::always_inline]] inline void max_of_plane(const AdaptivePool& p, const T* x, int64_t room,
                                                const ColumnMaxima<T, int64_t>& columns,
                                                int64_t* positions) {
  const int64_t width = p.out_size[2], rows = p.out_size[1];
  auto at = [&](int64_t d, int64_t h) { return (d * p.size[1] + h) * p.size[2]; };
  for (int64_t d = 0; d < p.out_size[0]; ++d)
    for (int64_t h = 0; h < rows; ++h, positions += width) {
      const int64_t back = repeats(p, 1, h) ? width : repeats(p, 0, d) ? rows * width : 0;
      if (back > 0) {
        for (int64_t w = 0; w < width; ++w) positions[w] = positions[w - back];
        continue;
      }
      bool is_first = true;
      for (int64_t i = p.begin(0, d); i < p.end(0, d); ++i)
        for (int64_t k = p.begin(1, h); k < p.end(1, h); ++k, is_first = false)
          columns.add_row(x + at(i, k), room - at(i, k), at(i, k), is_first);
      const T* largest = columns.largest;
      const int64_t* best = columns.best;
      for (int64_t w = 0; w < width; ++w) {
        int64_t m = p.begin(2, w);
        for (int64_t j = m + 1; j < p.end(2, w); ++j)
          if (better(largest[j], largest[m]) ||
              (equal(largest[j], largest[m]) && best[j] < best[m]))
            m = j;
        positions[w] = best[m];
      }
    }
}

}  // namespace

template <class T>
void max_pool_positions(const Conv& c, const T* x, int64_t* positions) {
  parallel_for(c.batch * c.in, 1 + kPoolingGrain / (c.out_plane() * c.taps() + 1),
               [&](int64_t first, int64_t last) {
                 // Indices as wide as T, where they hold the positions, share its vectors.
                 if (c.plane() <= std::numeric_limits<int32_t>::max())
                   max_planes<int32_t>(c, x, first, last, positions);
                 else
                   max_planes<int64_t>(c, x, first, last, positions);
               });
}

template <class T>
void adaptive_max_positions(const AdaptivePool& pool, int64_t planes, const T* x,
                            int64_t* positions) {
  parallel_for(planes, 1 + kPoolingGrain / (pool.plane() + 1), [&](int64_t first, int64_t last) {
    Scratch<T> largest(padded(pool.size[2]));
    Scratch<int64_t> best(padded(pool.size[2]));
    const ColumnMaxima<T, int64_t> columns{largest.data(), best.data(), pool.size[2]};
    simd([=] {
      for (int64_t p = first; p < last; ++p)
        max_of_plane(pool, x + p * pool.plane(), (planes - p) * pool.plane(), columns,
                     positions + p * pool.out_plane());
    });
  });
}

template void max_pool_positions(const Conv&, const float*, int64_t*);
template void max_pool_positions(const Conv&, const double*, int64_t*);
template void adaptive_max_positions(const AdaptivePool&, int64_t, const float*, int64_t*);
template void adaptive_max_positions(const AdaptivePool&, int64_t, const double*, int64_t*);

}  // namespace tern::kernels
