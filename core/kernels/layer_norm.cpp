#include <algorithm>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/storage.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"
#include "tern/core/kernels/normalise.h"

namespace tern::kernels {
namespace {

constexpr int64_t kGrain = 1 << 14;   // elements that are worth a thread
constexpr int64_t kBlockOfRows = 32;  // whose shares of dweight and dbias are summed in type T

int64_t grain(int64_t n) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)); }

// Sums of rows; in double where T overflows on the way, which a result of f32 need not.
template <class T>
[[gnu::always_inline]] inline double squares(const T* x, int64_t n, T centre) {
  const double s = blocked_sum<T>(n, [=](int64_t j) { return (x[j] - centre) * (x[j] - centre); });
  if (__builtin_isfinite(s)) return s;
  return blocked_sum<double>(n, [=](int64_t j) {
    const double d = static_cast<double>(x[j]) - static_cast<double>(centre);
    return d * d;
  });
}

template <class T>
[[gnu::always_inline]] inline double row_sum(const T* x, int64_t n) {
  const double s = blocked_sum<T>(n, [=](int64_t j) { return x[j]; });
  return __builtin_isfinite(s) ? s : sum_of<double>(x, n);
}

template <bool kCentred, class T>
void forward_rows(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, T* mean,
                  T* rstd, int64_t begin, int64_t end, int64_t n, double eps) {
  simd([=] {
    const double count = static_cast<double>(n);
    for (int64_t i = begin; i < end; ++i) {
      const T* row = x + i * x_stride;
      T* out = y + i * n;
      T m = 0;
      if constexpr (kCentred) mean[i] = m = static_cast<T>(row_sum(row, n) / count);
      const T r = static_cast<T>(1 / __builtin_sqrt(squares(row, n, m) / count + eps));
      rstd[i] = r;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) out[j] = (row[j] - m) * r * weight[j] + bias[j];
    }
  });
}

// One row: what it gives to dweight and dbias is added to dw and db.
template <bool kCentred, bool kShares, class T>
[[gnu::always_inline]] inline void backward_row(const T* dy, const T* x, const T* weight, T mean,
                                                T rstd, T* dx, T* dw, T* db, int64_t n) {
  double sum_d = 0, sum_dx = 0;
#pragma omp simd reduction(+ : sum_d, sum_dx)
  for (int64_t j = 0; j < n; ++j) {
    const T xhat = (x[j] - mean) * rstd, d = dy[j] * weight[j];
    sum_d += static_cast<double>(d);
    sum_dx += static_cast<double>(d * xhat);
    if constexpr (kShares) {
      dw[j] += dy[j] * xhat;
      db[j] += dy[j];
    }
  }
  const T a = kCentred ? static_cast<T>(sum_d / static_cast<double>(n)) : T(0);
  const T b = static_cast<T>(sum_dx / static_cast<double>(n));
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T xhat = (x[j] - mean) * rstd, d = dy[j] * weight[j];
    dx[j] = rstd * (d - a - xhat * b);
  }
}

template <bool kCentred, bool kShares, class T>
void backward_rows(const T* dy, const T* x, int64_t x_stride, const T* weight, const T* mean,
                   const T* rstd, T* dx, T* dw, T* db, int64_t begin, int64_t end, int64_t n) {
  simd([=] {
    for (int64_t i = begin; i < end; ++i)
      backward_row<kCentred, kShares>(dy + i * n, x + i * x_stride, weight,
                                      kCentred ? mean[i] : T(0), rstd[i], dx + i * n, dw, db, n);
  });
}

// sums[j] = part[j] + part[stride + j] + ... over the blocks, in order.
template <class T>
void add_blocks(const T* part, int64_t blocks, int64_t stride, T* sums, int64_t n) {
  parallel_for(n, std::max<int64_t>(64, kGrain / std::max<int64_t>(blocks, 1)),
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
void backward(const T* dy, const T* x, int64_t x_stride, const T* weight, const T* mean,
              const T* rstd, T* dx, T* dweight, T* dbias, int64_t rows, int64_t n) {
  if (!dweight) {
    parallel_for(rows, grain(n), [=](int64_t begin, int64_t end) {
      backward_rows<kCentred, false, T>(dy, x, x_stride, weight, mean, rstd, dx, nullptr, nullptr,
                                        begin, end, n);
    });
    return;
  }
  const int64_t blocks = (rows + kBlockOfRows - 1) / kBlockOfRows;
  Storage scratch(static_cast<size_t>(2 * blocks * n) * sizeof(T));
  T* shares = static_cast<T*>(scratch.data());
  parallel_for(blocks, grain(kBlockOfRows * n), [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T *dw = shares + 2 * b * n, *db = dw + n;
      std::fill_n(dw, 2 * n, T(0));
      backward_rows<kCentred, true>(dy, x, x_stride, weight, mean, rstd, dx, dw, db,
                                    b * kBlockOfRows, std::min(rows, (b + 1) * kBlockOfRows), n);
    }
  });
  add_blocks(shares, blocks, 2 * n, dweight, n);
  add_blocks(shares + n, blocks, 2 * n, dbias, n);
}

}  // namespace

template <class T>
void layer_norm(const T* x, int64_t x_stride, const T* weight, const T* bias, T* y, T* mean,
                T* rstd, int64_t rows, int64_t n, double eps) {
  parallel_for(rows, grain(n), [=](int64_t begin, int64_t end) {
    if (mean)
      forward_rows<true>(x, x_stride, weight, bias, y, mean, rstd, begin, end, n, eps);
    else
      forward_rows<false>(x, x_stride, weight, bias, y, mean, rstd, begin, end, n, eps);
  });
}

template <class T>
void layer_norm_backward(const T* dy, const T* x, int64_t x_stride, const T* weight, const T* mean,
                         const T* rstd, T* dx, T* dweight, T* dbias, int64_t rows, int64_t n) {
  if (mean)
    backward<true>(dy, x, x_stride, weight, mean, rstd, dx, dweight, dbias, rows, n);
  else
    backward<false>(dy, x, x_stride, weight, mean, rstd, dx, dweight, dbias, rows, n);
}

template void layer_norm(const float*, int64_t, const float*, const float*, float*, float*, float*,
                         int64_t, int64_t, double);
template void layer_norm(const double*, int64_t, const double*, const double*, double*, double*,
                         double*, int64_t, int64_t, double);
template void layer_norm_backward(const float*, const float*, int64_t, const float*, const float*,
                                  const float*, float*, float*, float*, int64_t, int64_t);
template void layer_norm_backward(const double*, const double*, int64_t, const double*,
                                  const double*, const double*, double*, double*, double*, int64_t,
                                  int64_t);

}  // namespace tern::kernels
