// Layer norm, RMS norm and their gradients, optionally fused with an addition and dropout. Sums of
// dweight and dbias use fixed blocks of rows, which are added in order.
#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/storage.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"
#include "tern/core/kernels/normalisation/normalise.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kLayerNormGrain = 1 << 14;  // elements per thread, at least

/// The number of rows whose parts of dweight and dbias are summed in T: an even number from 8 to
/// 32. It is chosen so that each of 64 threads has about the same number of blocks.
int64_t rows_of_block(int64_t rows) {
  constexpr int64_t kThreads = 64, kLeast = 8, kMost = 32;
  const int64_t each = std::max<int64_t>(1, ceil_div(rows, kThreads * kMost));
  return std::max(kLeast, ceil_div(rows, 2 * kThreads * each) * 2);
}

int64_t norm_grain(int64_t n) {
  return std::max<int64_t>(1, kLayerNormGrain / std::max<int64_t>(n, 1));
}

// The sum of squares of a row around `centre`. Sums again in double if the sum in T is not finite.
template <class T>
[[gnu::always_inline]] inline double squares(const T* x, int64_t n, T centre) {
  const double s = blocked_sum<T>(n, [=](int64_t j) { return (x[j] - centre) * (x[j] - centre); });
  if (__builtin_isfinite(s)) return s;
  return blocked_sum<double>(n, [=](int64_t j) {
    const double d = static_cast<double>(x[j]) - static_cast<double>(centre);
    return d * d;
  });
}

// The mean of a row, rounded once to T. A larger error could exceed the deviation of the row, and
// rows of equal elements must become exactly 0.
template <class T>
[[gnu::always_inline]] inline T row_mean(const T* x, int64_t n) {
  const double count = static_cast<double>(n), m = sum_of<double>(x, n) / count;
  if constexpr (sizeof(T) < sizeof(double)) return static_cast<T>(m);
  return m + lane_sum<double>(n, [=](int64_t j) { return x[j] - m; }) / count;
}

template <bool kCentred, class T>
void forward_rows(const LayerNormForward<T>& norm, int64_t begin, int64_t end) {
  simd([=, p = norm] {
    const int64_t n = p.n;
    const double count = static_cast<double>(n);
    for (int64_t i = begin; i < end; ++i) {
      const T *row = p.x + i * p.x_stride, *weight = p.weight, *bias = p.bias;
      T* out = p.y + i * n;
      T m = 0;
      if constexpr (kCentred) p.mean[i] = m = row_mean(row, n);
      const T r = static_cast<T>(1 / __builtin_sqrt(squares(row, n, m) / count + p.eps));
      p.rstd[i] = r;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) out[j] = (row[j] - m) * r * weight[j] + bias[j];
    }
  });
}

template <class T>
void forward_rows(const LayerNormForward<T>& norm, int64_t begin, int64_t end) {
  if (norm.mean)
    forward_rows<true>(norm, begin, end);
  else
    forward_rows<false>(norm, begin, end);
}

// Computes dx of one row, and adds the row's part of dweight and dbias to dw and db.
template <bool kCentred, bool kShares, class T>
[[gnu::always_inline]] inline void backward_row(const T* dy, const T* x, const T* weight, T mean,
                                                T rstd, T* dx, T* dw, T* db, int64_t n) {
  LaneSum<double> sum_d, sum_dx;
  each_lane(n, [=, &sum_d, &sum_dx](int64_t j, int l) {
    const T xhat = (x[j] - mean) * rstd, d = dy[j] * weight[j];
    sum_d.lane[l] += static_cast<double>(d);
    sum_dx.lane[l] += static_cast<double>(d * xhat);
    if constexpr (kShares) {
      dw[j] += dy[j] * xhat;
      db[j] += dy[j];
    }
  });
  const T a = kCentred ? static_cast<T>(sum_d.total() / static_cast<double>(n)) : T(0);
  const T b = static_cast<T>(sum_dx.total() / static_cast<double>(n));
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T xhat = (x[j] - mean) * rstd, d = dy[j] * weight[j];
    dx[j] = rstd * (d - a - xhat * b);
  }
}

// to[j] += from[j]
template <class T>
[[gnu::always_inline]] inline void add_row(const T* from, T* to, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] += from[j];
}

// `row` is working memory for one row if the result is added to dx, else null.
template <bool kCentred, bool kShares, class T>
void backward_rows(const LayerNormBackward<T>& norm, T* dw, T* db, T* row, int64_t begin,
                   int64_t end) {
  simd([=, p = norm] {
    const int64_t n = p.n;
    for (int64_t i = begin; i < end; ++i) {
      T* dx = p.dx + i * n;
      backward_row<kCentred, kShares>(p.dy + i * n, p.x + i * p.x_stride, p.weight,
                                      kCentred ? p.mean[i] : T(0), p.rstd[i], row ? row : dx, dw,
                                      db, n);
      if (row) add_row(row, dx, n);
    }
  });
}

template <bool kCentred, bool kShares, class T>
void backward_range(const LayerNormBackward<T>& norm, T* dw, T* db, int64_t begin, int64_t end) {
  const int64_t n = norm.n;
  Scratch<T> row(norm.adds ? n : 0);
  T* room = norm.adds ? row.data() : nullptr;
  if (!norm.dropped) return backward_rows<kCentred, kShares>(norm, dw, db, room, begin, end);
  const int64_t step = rows_of_groups(n);
  for (int64_t i = begin; i < end; i += step) {
    const int64_t last = std::min(end, i + step);
    backward_rows<kCentred, kShares>(norm, dw, db, room, i, last);
    dropout_range(norm.dx + i * n, norm.dropped + i * n, i * n, last * n, norm.mask);
  }
}

// sums[j] = part[j] + part[stride + j] + ... over the blocks, in order.
template <class T>
void add_blocks(const T* part, int64_t blocks, int64_t stride, T* sums, int64_t n) {
  parallel_for(n, std::max<int64_t>(64, kLayerNormGrain / std::max<int64_t>(blocks, 1)),
               [=](int64_t begin, int64_t end) {
                 constexpr int64_t kColumns = 256;
                 simd([=] {
                   for (int64_t j0 = begin; j0 < end; j0 += kColumns) {
                     const int64_t count = end - j0 < kColumns ? end - j0 : kColumns;
                     double sum[kColumns] = {};
                     for (int64_t b = 0; b < blocks; ++b)
                       for (int64_t j = 0; j < count; ++j)
                         sum[j] += static_cast<double>(part[b * stride + j0 + j]);
                     for (int64_t j = 0; j < count; ++j) sums[j0 + j] = static_cast<T>(sum[j]);
                   }
                 });
               });
}

template <bool kCentred, class T>
void backward(const LayerNormBackward<T>& norm) {
  const int64_t n = norm.n, rows = norm.rows;
  const int64_t each = rows_of_block(rows), blocks = ceil_div(rows, each);
  if (!norm.dweight) {
    parallel_for(rows, norm_grain(n), [&](int64_t begin, int64_t end) {
      backward_range<kCentred, false, T>(norm, nullptr, nullptr, begin, end);
    });
    return;
  }
  tern::detail::Storage scratch(static_cast<size_t>(2 * blocks * n) * sizeof(T));
  T* shares = static_cast<T*>(scratch.data());
  parallel_for(blocks, norm_grain(each * n), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T *dw = shares + 2 * b * n, *db = dw + n;
      std::fill_n(dw, 2 * n, T(0));
      backward_range<kCentred, true>(norm, dw, db, b * each, std::min(rows, (b + 1) * each));
    }
  });
  add_blocks(shares, blocks, 2 * n, norm.dweight, n);
  add_blocks(shares + n, blocks, 2 * n, norm.dbias, n);
}

}  // namespace

template <class T>
void layer_norm(const LayerNormForward<T>& norm) {
  parallel_for(norm.rows, norm_grain(norm.n),
               [&](int64_t begin, int64_t end) { forward_rows(norm, begin, end); });
}

template <class T>
void add_layer_norm(const T* branch, const T* residual, const DropMask* mask, T* sum,
                    const LayerNormForward<T>& norm) {
  const int64_t n = norm.n, step = rows_of_groups(n), parts = ceil_div(norm.rows, step);
  parallel_for(parts, norm_grain(step * n), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part * step, last = std::min(norm.rows, first + step);
      const int64_t at = first * n, count = last * n - at;
      const T* from = branch + at;
      const T* passed = residual + at;
      T* to = sum + at;
      if (mask) {  // a separate pass, as in dropout_add()
        dropout_range(from, to, at, at + count, *mask);
        from = to;
      }
      simd([=] {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) to[i] = passed[i] + from[i];
      });
      forward_rows(norm, first, last);
    }
  });
}

template <class T>
void layer_norm_backward(const LayerNormBackward<T>& norm) {
  if (norm.mean)
    backward<true>(norm);
  else
    backward<false>(norm);
}

template void layer_norm(const LayerNormForward<float>&);
template void layer_norm(const LayerNormForward<double>&);
template void add_layer_norm(const float*, const float*, const DropMask*, float*,
                             const LayerNormForward<float>&);
template void add_layer_norm(const double*, const double*, const DropMask*, double*,
                             const LayerNormForward<double>&);
template void layer_norm_backward(const LayerNormBackward<float>&);
template void layer_norm_backward(const LayerNormBackward<double>&);

}  // namespace tern::kernels
