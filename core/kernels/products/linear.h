// The passes of linear around its product: finishing a panel while it is in the cache, and the
// first pass of backward. Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/products/gemm.h"
#include "tern/core/kernels/random/dropout.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

/// Contiguous matrices with n columns.
template <class T>
struct LinearOutput {
  int64_t n;
  T* product;         ///< x W^T; becomes x W^T + bias
  const T* bias;      ///< (n)
  T* y;               ///< f(product + bias) + residual; may be `product`
  T* activated;       ///< f(product + bias), or null
  const T* residual;  ///< or null
};

template <class T, class F>
void finish_panel(const LinearOutput<T>& out, const Panel& panel, F f) {
  const T* bias = out.bias + panel.offset % out.n;
  for (int64_t i = 0; i < panel.rows; ++i) {
    const int64_t at = panel.offset + i * panel.stride, n = panel.cols;
    T* product = out.product + at;
    T* y = out.y + at;
    simd([=] {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        T v = product[j] + bias[j];
        product[j] = v;
        y[j] = f(v);
      }
    });
    if (out.activated) std::copy(y, y + n, out.activated + at);
    if (!out.residual) continue;
    const T* residual = out.residual + at;
    simd([=] {
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) y[j] += residual[j];
    });
  }
}

/// y = f(x) for n numbers, with the same bits as finish_panel.
template <class T, class F>
void activate(int64_t n, const T* x, T* y, F f) {
  parallel_for(n, 1 << 12, [=](int64_t begin, int64_t end) {
    simd([=] {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i] = f(x[i]);
    });
  });
}

/// The number of ranges of columns to cut blocks of rows into, so that many threads get about equal
/// numbers of tasks. With a mask it is 1, since masks are drawn for whole rows.
inline int64_t column_ranges(int64_t n, int64_t blocks, bool mask) {
  constexpr int64_t kFewThreads = 4, kMostRanges = 4, kLeast = 128;
  const int64_t threads = num_threads();
  if (mask || threads <= kFewThreads) return 1;
  int64_t best = 1;
  for (int64_t ranges = 2; ranges <= std::min(kMostRanges, n / kLeast); ++ranges)
    if (ceil_div(blocks * ranges, threads) * best < ceil_div(blocks * best, threads) * ranges)
      best = ranges;
  return best;
}

/// sum[j] = sums[j] + sums[n + j] + ... over the blocks, in order.
template <class T>
void add_in_order(const T* sums, int64_t blocks, int64_t n, T* sum) {
  constexpr int64_t kGrain = 1 << 12;
  parallel_for(n, std::max<int64_t>(64, kGrain / blocks), [=](int64_t begin, int64_t end) {
    std::fill(sum + begin, sum + end, T(0));
    for (int64_t block = 0; block < blocks; ++block) {
      const T* from = sums + block * n;
      simd([=] {
#pragma omp simd
        for (int64_t j = begin; j < end; ++j) sum[j] += from[j];
      });
    }
  });
}

/// dpre (rows, n) = df(dy, kept), or df(dropped dy, kept) with a mask. Unless null, dbias (n) is
/// the sum of its rows, in blocks whose sums are added in order. dpre may be dy. Kept is T, or Bf16
/// if T is float.
template <class T, class Kept, class F>
void linear_gradient(int64_t rows, int64_t n, const T* dy, const Kept* kept, T* dpre, T* dbias,
                     const DropMask* mask, F df) {
  // Enough blocks for 64 threads. Blocks have an even number of rows, since a mask is drawn for two
  // rows or more.
  constexpr int64_t kMaxBlocks = 64, kMinRows = 8;
  const int64_t step = std::max(kMinRows, ceil_div(rows, 2 * kMaxBlocks) * 2);
  const int64_t blocks = ceil_div(rows, step);
  if (blocks == 0) {
    if (dbias) std::fill(dbias, dbias + n, T(0));
    return;
  }
  const int64_t ranges = column_ranges(n, blocks, mask != nullptr);
  const int64_t width = ceil_div(ceil_div(n, ranges), int64_t{64}) * 64;
  Scratch<T> sums(dbias ? blocks * n : 0);
  parallel_blocks(blocks * ranges, 30 * rows * n, [&](int64_t task) {
    const int64_t block = task / ranges, left = task % ranges * width;
    const int64_t right = std::min(n, left + width);
    if (left >= right) return;
    T* sum = dbias ? sums.data() + block * n : nullptr;
    if (sum) std::fill(sum + left, sum + right, T(0));
    const int64_t first = block * step, last = std::min(rows, first + step);
    const int64_t together = rows_of_groups(n);
    for (int64_t i = first; i < last; ++i) {
      if (mask && (i - first) % together == 0)
        dropout_range(dy + i * n, dpre + i * n, i * n, std::min(last, i + together) * n, *mask);
      const T* d = (mask ? dpre : dy) + i * n;
      const Kept* k = kept + i * n;
      T* to = dpre + i * n;
      simd([=] {
#pragma omp simd
        for (int64_t j = left; j < right; ++j) to[j] = df(d[j], static_cast<T>(widened(k[j])));
      });
      if (!sum) continue;
      simd([=] {
#pragma omp simd
        for (int64_t j = left; j < right; ++j) sum[j] += to[j];
      });
    }
  });
  if (dbias) add_in_order(sums.data(), blocks, n, dbias);
}

}  // namespace tern::kernels
