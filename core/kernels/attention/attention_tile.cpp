// The row loops of attention on one tile: scores with masks and bias, softmax and its
// recomputation, dropout, and the softmax's gradient.
#include "tern/core/kernels/attention/attention_tile.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/vmath.h"
#include "tern/core/kernels/products/product.h"

namespace tern::kernels {
namespace {

constexpr int64_t kChunk = 16;
template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

/// Whether a row keeps its log-sum-exp instead of maximum and factor. In bf16 it loses fewer digits
/// than the products do, and results keep the bits of earlier versions.
template <class T>
bool takes_log_sums() {
  return std::is_same_v<T, float> && matmul_precision() == MatmulPrecision::bf16;
}

/// The numbers kept for a row of scores (attention.h).
template <class T>
struct RowSoftmax {
  T shift, factor;
};

/// Replaces x[0, n) by softmax(scale x) and x[n, end) by 0. Scores of -inf give 0, and a row of
/// -inf gives zeros. x has room for n rounded up to whole vectors. Returns the argument of
/// softmax_row_again or softmax_row_of_log_sum.
template <class T>
[[gnu::always_inline]] inline RowSoftmax<T> softmax_row(T* x, int64_t n, int64_t end, T scale,
                                                        bool by_log_sum) {
  const int64_t padded = ceil_div(n, kChunk) * kChunk;
  if (!(scale > T(0))) {  // a positive scale can wait: the largest score stays the largest
    for (int64_t j = 0; j < n; ++j) x[j] *= scale;
    scale = 1;
  }
  for (int64_t j = n; j < padded; ++j) x[j] = kNone<T>;
  T lane[kChunk];
  for (int64_t l = 0; l < kChunk; ++l) lane[l] = kNone<T>;
  for (int64_t j = 0; j < padded; j += kChunk)
    for (int64_t l = 0; l < kChunk; ++l) lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
  for (int64_t w = kChunk / 2; w > 0; w /= 2)
    for (int64_t l = 0; l < w; ++l) lane[l] = lane[l + w] > lane[l] ? lane[l + w] : lane[l];
  const T max = lane[0];  // skips NaN, but the sum is then NaN
  const T sum = lane_sum<T>(padded, [=](int64_t j) {
    const bool seen = x[j] != kNone<T>;
    const T e = vmath::exp(seen ? (x[j] - max) * scale : T(0));
    return x[j] = seen ? e : T(0);
  });
  const T r = sum == T(0) ? T(0) : T(1) / sum;
#pragma omp simd
  for (int64_t j = 0; j < padded; ++j) x[j] *= r;
  for (int64_t j = padded; j < end; ++j) x[j] = 0;
  return {by_log_sum ? max * scale + vmath::log(sum) : max, r};
}

/// The same softmax of the same scores, to the bit, without computing maximum and sum again.
template <class T>
[[gnu::always_inline]] inline void softmax_row_again(T* x, int64_t n, int64_t end, T scale,
                                                     RowSoftmax<T> row) {
  if (!(scale > T(0))) {
    for (int64_t j = 0; j < n; ++j) x[j] *= scale;
    scale = 1;
  }
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const bool seen = x[j] != kNone<T>;
    const T e = vmath::exp(seen ? (x[j] - row.shift) * scale : T(0));
    x[j] = seen ? e * row.factor : T(0);
  }
  for (int64_t j = n; j < end; ++j) x[j] = 0;
}

/// The same softmax from its log-sum-exp. It is less precise for larger scores.
template <class T>
[[gnu::always_inline]] inline void softmax_row_of_log_sum(T* x, int64_t n, int64_t end, T scale,
                                                          T log_sum) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const bool seen = x[j] != kNone<T>;
    const T e = vmath::exp(seen ? x[j] * scale - log_sum : T(0));
    x[j] = seen ? e : T(0);
  }
  for (int64_t j = n; j < end; ++j) x[j] = 0;
}

/// Adds the bias and hides keys. Returns the factor that the scores still need. Without a bias that
/// is all of `scale`, so that hidden keys give the same bits as keys beyond a length.
template <class T>
T add_masks(const AttentionInputs<T>& in, const Tile& tile, const TilePanels<T>& panels,
            int64_t ld) {
  const bool waits = !in.bias.data && in.scale > T(0);  // scaling keeps -inf
  for (int64_t i = 0; i < tile.rows; ++i) {
    T* row = panels.p + i * ld;
    const int64_t n = panels.counts[i], t = tile.first + i;
    T scale = in.scale;
    if (in.bias.data) {
      const T* bias = in.bias.at(tile.b, tile.h, t);
      simd([=] {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) row[j] = row[j] * scale + bias[j];
      });
      scale = 1;
    }
    if (in.allowed.data) {
      const uint8_t* allowed = in.allowed.at(tile.b, tile.h, t);
      if (waits) scale = 1;
      simd([=] {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) row[j] = allowed[j] ? row[j] * scale : kNone<T>;
      });
      scale = 1;
    }
    if (in.windowed) {
      const int64_t first = std::clamp<int64_t>(t + in.from, 0, n);
      std::fill(row, row + first, kNone<T>);
      for (int64_t j = first; j < n && !waits; ++j) row[j] *= scale;
    }
  }
  return waits ? in.scale : T(1);
}

template <class T>
[[gnu::always_inline]] inline void gradient_row(const T* p, T* d, int64_t n, int64_t end) {
  const T sum = lane_sum<T>(n, [p, d](int64_t j) { return p[j] * d[j]; });
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) d[j] = p[j] * (d[j] - sum);
  for (int64_t j = n; j < end; ++j) d[j] = 0;
}

template <class T>
[[gnu::always_inline]] inline void dropped_gradient_row(const T* m, T* p, T* d, int64_t n,
                                                        int64_t end) {
  const T sum = lane_sum<T>(n, [m, p, d](int64_t j) { return p[j] * (m[j] * d[j]); });
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    d[j] = p[j] * (m[j] * d[j] - sum);
    p[j] *= m[j];
  }
  for (int64_t j = n; j < end; ++j) d[j] = 0;
}

/// Sets tile.keys and panels.counts and computes the scores into panels.p. Returns the factor that
/// they still need.
template <class T>
T scores(const AttentionInputs<T>& in, const SharedFactor<T>& keys, const Tiling& tiling,
         Tile& tile, const TilePanels<T>& panels) {
  tile.keys = 0;
  for (int64_t i = 0; i < tile.rows; ++i) {
    panels.counts[i] = reach(in, tile.b, tile.first + i);
    tile.keys = std::max(tile.keys, panels.counts[i]);
  }
  const Matrix<T> q{in.q.at(tile.b, tile.h, tile.first), {in.q.row, in.q.col}};
  keys.multiply(
      {.m = tile.rows, .n = tile.keys, .k = in.size.dim, .a = q, .c = panels.p, .ldc = tiling.ld});
  if (!in.bias.data && !in.allowed.data && !in.windowed) return in.scale;
  return add_masks(in, tile, panels, tiling.ld);
}

}  // namespace

template <class T>
int64_t reach(const AttentionInputs<T>& in, int64_t b, int64_t t) {
  int64_t n = in.size.keys;
  if (in.lengths.data) n = std::min(n, *in.lengths.at(b, 0, t));
  if (in.causal) n = std::min(n, t + in.offset + 1);
  return std::max<int64_t>(n, 0);
}

Tiling::Tiling(const AttentionSizes& size) {
  constexpr int64_t kPanel = 1 << 15;  // elements: the second cache holds several panels
  constexpr int64_t kRows = 64;        // fewer rows would often reread long keys from memory
  ld = std::max<int64_t>(ceil_div(size.keys, kChunk), 1) * kChunk;
  count = std::min(ceil_div(size.queries * ld, kPanel), ceil_div(size.queries, kRows));
  count = std::max<int64_t>(count, 1);
  rows = std::max<int64_t>(ceil_div(size.queries, count), 1);
  count = ceil_div(size.queries, rows);
  groups = ceil_div(rows * size.keys, kWordsPerGroup);
}

Tile Tiling::tile(int64_t i, const AttentionSizes& size) const {
  const int64_t head = i / count, first = i % count * rows;
  return {
      i,        head / size.heads, head % size.heads, first, std::min(rows, size.queries - first),
      size.keys};
}

template <class T>
void probabilities(const AttentionInputs<T>& in, const SharedFactor<T>& keys, const Tiling& tiling,
                   Tile& tile, const TilePanels<T>& panels, T* kept) {
  const T scale = scores(in, keys, tiling, tile, panels);
  simd([=, by_log_sum = takes_log_sums<T>(), p = panels.p, counts = panels.counts, rows = tile.rows,
        keys = tile.keys, ld = tiling.ld] {
    for (int64_t i = 0; i < rows; ++i) {
      const RowSoftmax<T> row = softmax_row(p + i * ld, counts[i], keys, scale, by_log_sum);
      if (kept) kept[2 * i] = row.shift, kept[2 * i + 1] = row.factor;
    }
  });
}

template <class T>
void probabilities_again(const AttentionInputs<T>& in, const SharedFactor<T>& keys,
                         const Tiling& tiling, Tile& tile, const TilePanels<T>& panels,
                         const T* kept) {
  const T scale = scores(in, keys, tiling, tile, panels);
  simd([=, by_log_sum = takes_log_sums<T>(), p = panels.p, counts = panels.counts, rows = tile.rows,
        keys = tile.keys, ld = tiling.ld] {
    for (int64_t i = 0; i < rows; ++i) {
      T* x = p + i * ld;
      if (by_log_sum)
        softmax_row_of_log_sum(x, counts[i], keys, scale, kept[2 * i]);
      else
        softmax_row_again(x, counts[i], keys, scale, {kept[2 * i], kept[2 * i + 1]});
    }
  });
}

template <class T>
void dropout_factors(const DropMask& dropout, const Tiling& tiling, const Tile& tile, int64_t keys,
                     T* factors) {
  const int64_t groups = ceil_div(tile.rows * keys, kWordsPerGroup);
  const auto start = static_cast<uint64_t>(tile.number * tiling.groups);
  const T scale = static_cast<T>(dropout.scale);
  simd([=, key = dropout.key, first = dropout.first] {
    for (int64_t g = 0; g < groups; ++g) {
      PhiloxGroup words;
      philox_group(key, (start + static_cast<uint64_t>(g)) * kPhiloxGroup, words);
      const uint32_t* w = words.words[0];
      T* to = factors + g * kWordsPerGroup;
#pragma omp simd
      for (int64_t i = 0; i < kWordsPerGroup; ++i) to[i] = w[i] >= first ? scale : T(0);
    }
  });
}

template <class T>
void multiply_rows(const Tile& tile, const T* factors, int64_t keys, T* p, int64_t ld) {
  simd([=, rows = tile.rows, n = tile.keys] {
    for (int64_t i = 0; i < rows; ++i) {
      const T* m = factors + i * keys;
      T* x = p + i * ld;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) x[j] *= m[j];
    }
  });
}

template <class T>
void scale_rows(const Tile& tile, T factor, T* d, int64_t ld) {
  simd([=, rows = tile.rows, n = tile.keys] {
    for (int64_t i = 0; i < rows; ++i) {
      T* x = d + i * ld;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) x[j] *= factor;
    }
  });
}

template <class T>
void softmax_gradient(const Tile& tile, const int64_t* counts, const T* factors, int64_t keys, T* p,
                      T* d, int64_t ld) {
  simd([=, rows = tile.rows, end = tile.keys] {
    for (int64_t i = 0; i < rows; ++i) {
      if (factors)
        dropped_gradient_row(factors + i * keys, p + i * ld, d + i * ld, counts[i], end);
      else
        gradient_row(p + i * ld, d + i * ld, counts[i], end);
    }
  });
}

template int64_t reach(const AttentionInputs<float>&, int64_t, int64_t);
template void probabilities(const AttentionInputs<float>&, const SharedFactor<float>&,
                            const Tiling&, Tile&, const TilePanels<float>&, float*);
template void probabilities_again(const AttentionInputs<float>&, const SharedFactor<float>&,
                                  const Tiling&, Tile&, const TilePanels<float>&, const float*);
template int64_t reach(const AttentionInputs<double>&, int64_t, int64_t);
template void probabilities(const AttentionInputs<double>&, const SharedFactor<double>&,
                            const Tiling&, Tile&, const TilePanels<double>&, double*);
template void probabilities_again(const AttentionInputs<double>&, const SharedFactor<double>&,
                                  const Tiling&, Tile&, const TilePanels<double>&, const double*);
template void dropout_factors(const DropMask&, const Tiling&, const Tile&, int64_t, float*);
template void dropout_factors(const DropMask&, const Tiling&, const Tile&, int64_t, double*);
template void multiply_rows(const Tile&, const float*, int64_t, float*, int64_t);
template void multiply_rows(const Tile&, const double*, int64_t, double*, int64_t);
template void scale_rows(const Tile&, float, float*, int64_t);
template void softmax_gradient(const Tile&, const int64_t*, const float*, int64_t, float*, float*,
                               int64_t);
template void scale_rows(const Tile&, double, double*, int64_t);
template void softmax_gradient(const Tile&, const int64_t*, const double*, int64_t, double*,
                               double*, int64_t);

}  // namespace tern::kernels
