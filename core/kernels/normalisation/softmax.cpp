// Forward and backward of softmax and log-softmax. A row takes one pass for the largest number, one
// for the sum, and one for the result.
#include "tern/core/kernels/normalisation/softmax.h"

#include <algorithm>
#include <limits>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"

namespace tern::kernels {
namespace {

constexpr int64_t kSoftmaxGrain = 1 << 12;  // elements per thread, at least

int64_t grain(int64_t n) { return std::max<int64_t>(1, kSoftmaxGrain / std::max<int64_t>(n, 1)); }

template <class T>
[[gnu::always_inline]] inline void softmax_row(const T* x, T* y, int64_t n, T max) {
  const double sum = blocked_sum<T>(n, [=](int64_t j) { return y[j] = vmath::exp(x[j] - max); });
  const T scale = static_cast<T>(1 / sum);
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] *= scale;
}

template <class T>
[[gnu::always_inline]] inline void log_softmax_row(const T* x, T* y, int64_t n, T max) {
  const double sum = blocked_sum<T>(n, [=](int64_t j) { return vmath::exp(x[j] - max); });
  const T log_sum = static_cast<T>(vmath::log(sum));
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - max) - log_sum;
}

template <bool kLog, class T>
[[gnu::always_inline]] inline void any_softmax_row(const T* x, T* y, int64_t n, T max) {
  if constexpr (kLog)
    log_softmax_row(x, y, n, max);
  else
    softmax_row(x, y, n, max);
}

template <bool kLog, class T>
[[gnu::always_inline]] inline void masked_row(const T* x, const uint8_t* mask, T* y, int64_t n) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] = mask[j] ? x[j] : kNone;
  const T max = max_of(y, n);
  if (max == kNone)
    std::fill(y, y + n, kLog ? kNone : T(0));
  else
    any_softmax_row<kLog>(y, y, n, max);
}

template <bool kLog, class T>
void softmax_rows(const T* x, const RowMask& mask, T* y, int64_t rows, int64_t n) {
  parallel_for(rows, grain(n), [&](int64_t begin, int64_t end) {
    if (!mask.data) {
      simd([=] {
        for (int64_t i = begin; i < end; ++i) {
          const T* row = x + i * n;
          any_softmax_row<kLog>(row, y + i * n, n, max_of(row, n));
        }
      });
      return;
    }
    int64_t at = begin;
    const int64_t step = mask.rows.inner_stride(0);
    for_each_run(mask.rows, begin, end, [&](const Offsets& offsets, int64_t count) {
      const uint8_t* m = mask.data + offsets[0];
      const T* from = x + at * n;
      T* to = y + at * n;
      simd([=] {
        for (int64_t i = 0; i < count; ++i)
          masked_row<kLog>(from + i * n, m + i * step, to + i * n, n);
      });
      at += count;
    });
  });
}

}  // namespace

template <class T>
void softmax(const T* x, const RowMask& mask, T* y, int64_t rows, int64_t n) {
  softmax_rows<false>(x, mask, y, rows, n);
}

template <class T>
void log_softmax(const T* x, const RowMask& mask, T* y, int64_t rows, int64_t n) {
  softmax_rows<true>(x, mask, y, rows, n);
}

template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t n) {
  parallel_for(rows, grain(n), [=](int64_t begin, int64_t end) {
    simd([=] {
      for (int64_t i = begin * n; i < end * n; i += n) {
        const T s =
            static_cast<T>(blocked_sum<T>(n, [=](int64_t j) { return dy[i + j] * y[i + j]; }));
#pragma omp simd
        for (int64_t j = i; j < i + n; ++j) dx[j] = y[j] * (dy[j] - s);
      }
    });
  });
}

template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, int64_t rows, int64_t n) {
  parallel_for(rows, grain(n), [=](int64_t begin, int64_t end) {
    simd([=] {
      for (int64_t i = begin * n; i < end * n; i += n) {
        const T s = static_cast<T>(blocked_sum<T>(n, [=](int64_t j) { return dy[i + j]; }));
#pragma omp simd
        for (int64_t j = i; j < i + n; ++j) dx[j] = dy[j] - vmath::exp(y[j]) * s;
      }
    });
  });
}

template void softmax(const float*, const RowMask&, float*, int64_t, int64_t);
template void softmax(const double*, const RowMask&, double*, int64_t, int64_t);
template void log_softmax(const float*, const RowMask&, float*, int64_t, int64_t);
template void log_softmax(const double*, const RowMask&, double*, int64_t, int64_t);
template void softmax_backward(const float*, const float*, float*, int64_t, int64_t);
template void softmax_backward(const double*, const double*, double*, int64_t, int64_t);
template void log_softmax_backward(const float*, const float*, float*, int64_t, int64_t);
template void log_softmax_backward(const double*, const double*, double*, int64_t, int64_t);

}  // namespace tern::kernels
