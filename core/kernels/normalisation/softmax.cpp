// Forward and backward of softmax and log-softmax. A line takes one pass for the largest number,
// one for the sum, and one for the result. Lines that are not rows are computed side by side.
#include "tern/core/kernels/normalisation/softmax.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "tern/core/base/ceil_div.h"
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

/// Calls line(i, count) for `count` lines side by side, of which the first begins at element i.
template <class F>
void each_strip(const Lines& lines, F line) {
  const int64_t strips = ceil_div(lines.inner, kSideBySide);
  auto run = [=](int64_t begin, int64_t end) {
    simd([=] {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % strips * kSideBySide, left = lines.inner - first;
        const int64_t at = i / strips * lines.size * lines.inner + first;
        if (left >= kSideBySide)
          line(at, std::integral_constant<int, kSideBySide>());
        else
          line(at, static_cast<int>(left));
      }
    });
  };
  parallel_for(lines.outer * strips, grain(lines.size * kSideBySide), run);
}

template <bool kLog, class T>
void softmax_columns(const T* x, T* y, const Lines& lines) {
  each_strip(lines, [x, y, n = lines.size, step = lines.inner](int64_t at, auto count) {
    T max[kSideBySide], last[kSideBySide];
    double sum[kSideBySide];
    for (int w = 0; w < count; ++w) max[w] = -std::numeric_limits<T>::infinity();
    for (int64_t i = at; i < at + n * step; i += step)
#pragma omp simd
      for (int w = 0; w < count; ++w) max[w] = larger(x[i + w], max[w]);
    blocked_sums<T>(n, count, sum, [=, &max](int64_t j, int w) {
      const int64_t i = at + j * step + w;
      return y[i] = vmath::exp(x[i] - max[w]);
    });
    for (int w = 0; w < count; ++w)
      last[w] = static_cast<T>(kLog ? vmath::log(sum[w]) : 1 / sum[w]);
    for (int64_t i = at; i < at + n * step; i += step)
#pragma omp simd
      for (int w = 0; w < count; ++w)
        y[i + w] = kLog ? (x[i + w] - max[w]) - last[w] : y[i + w] * last[w];
  });
}

template <bool kLog, class T>
void softmax_any(const T* x, const RowMask& mask, T* y, const Lines& lines) {
  if (lines.inner == 1)
    softmax_rows<kLog>(x, mask, y, lines.outer, lines.size);
  else
    softmax_columns<kLog>(x, y, lines);
}

template <bool kLog, class T>
void backward_columns(const T* dy, const T* y, T* dx, const Lines& lines) {
  each_strip(lines, [dy, y, dx, n = lines.size, step = lines.inner](int64_t at, auto count) {
    double sum[kSideBySide];
    blocked_sums<T>(n, count, sum, [=](int64_t j, int w) {
      const int64_t i = at + j * step + w;
      return kLog ? dy[i] : dy[i] * y[i];
    });
    for (int64_t i = at; i < at + n * step; i += step)
#pragma omp simd
      for (int w = 0; w < count; ++w) {
        const T s = static_cast<T>(sum[w]);
        dx[i + w] = kLog ? dy[i + w] - vmath::exp(y[i + w]) * s : y[i + w] * (dy[i + w] - s);
      }
  });
}

template <bool kLog, class T>
void backward_rows(const T* dy, const T* y, T* dx, int64_t rows, int64_t n) {
  parallel_for(rows, grain(n), [=](int64_t begin, int64_t end) {
    simd([=] {
      for (int64_t i = begin * n; i < end * n; i += n) {
        const T s = static_cast<T>(
            blocked_sum<T>(n, [=](int64_t j) { return kLog ? dy[i + j] : dy[i + j] * y[i + j]; }));
#pragma omp simd
        for (int64_t j = i; j < i + n; ++j)
          dx[j] = kLog ? dy[j] - vmath::exp(y[j]) * s : y[j] * (dy[j] - s);
      }
    });
  });
}

template <bool kLog, class T>
void backward_any(const T* dy, const T* y, T* dx, const Lines& lines) {
  if (lines.inner == 1)
    backward_rows<kLog>(dy, y, dx, lines.outer, lines.size);
  else
    backward_columns<kLog>(dy, y, dx, lines);
}

}  // namespace

template <class T>
void softmax(const T* x, const RowMask& mask, T* y, const Lines& lines) {
  softmax_any<false>(x, mask, y, lines);
}

template <class T>
void log_softmax(const T* x, const RowMask& mask, T* y, const Lines& lines) {
  softmax_any<true>(x, mask, y, lines);
}

template <class T>
void softmax_backward(const T* dy, const T* y, T* dx, const Lines& lines) {
  backward_any<false>(dy, y, dx, lines);
}

template <class T>
void log_softmax_backward(const T* dy, const T* y, T* dx, const Lines& lines) {
  backward_any<true>(dy, y, dx, lines);
}

template void softmax(const float*, const RowMask&, float*, const Lines&);
template void softmax(const double*, const RowMask&, double*, const Lines&);
template void log_softmax(const float*, const RowMask&, float*, const Lines&);
template void log_softmax(const double*, const RowMask&, double*, const Lines&);
template void softmax_backward(const float*, const float*, float*, const Lines&);
template void softmax_backward(const double*, const double*, double*, const Lines&);
template void log_softmax_backward(const float*, const float*, float*, const Lines&);
template void log_softmax_backward(const double*, const double*, double*, const Lines&);

}  // namespace tern::kernels
