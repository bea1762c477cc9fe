// Distances of every point to all points of the other set. p = 1 and p = 2 are vector code: with
// several points, each element of a vector belongs to another point of b.
#include "tern/core/kernels/linalg/distance.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kDistanceGrain = 16384;  // differences per thread, at least

// sum of term(difference) along d coordinates.
template <class T, class Term>
[[gnu::always_inline]] inline T total(const T* a, const T* b, int64_t d, Term term) {
  return lane_sum<T>(d, [a, b, term](int64_t k) { return term(a[k] - b[k]); });
}

template <class T>
T largest(const T* a, const T* b, int64_t d) {
  T most = 0;
  for (int64_t k = 0; k < d; ++k) {
    const T v = std::abs(a[k] - b[k]);
    most = v > most || v != v ? v : most;
  }
  return most;
}

constexpr int kTogether = 32;    // points of b whose distances are computed side by side
constexpr int64_t kTerms = 128;  // terms of a sum that are added before they join the total

// to[k * kTogether + j] = coordinate k of point j < count. Other points are copies of the last one.
template <class T>
void put_side_by_side(const T* b, int64_t count, int64_t d, T* to) {
  for (int64_t j = 0; j < kTogether; ++j) {
    const T* from = b + (j < count ? j : count - 1) * d;
    for (int64_t k = 0; k < d; ++k) to[k * kTogether + j] = from[k];
  }
}

// sum[j] = the sum of term(difference) along d coordinates, for points that stand side by side.
template <class T, class Term>
[[gnu::always_inline]] inline void totals(const T* a, const T* side, int64_t d, T* sum, Term term) {
  for (int j = 0; j < kTogether; ++j) sum[j] = 0;
  for (int64_t first = 0; first < d; first += kTerms) {
    const int64_t last = first + kTerms < d ? first + kTerms : d;
    T part[kTogether] = {};
    for (int64_t k = first; k < last; ++k)
#pragma omp simd
      for (int j = 0; j < kTogether; ++j) part[j] += term(a[k] - side[k * kTogether + j]);
    for (int j = 0; j < kTogether; ++j) sum[j] += part[j];
  }
}

// Some rows of y, for p = 1 and p = 2: the distances of `rows` points to m others.
template <class T>
void rows_side_by_side(bool squares, const T* a, const T* b, T* y, int64_t rows, int64_t m,
                       int64_t d) {
  Scratch<T> side(d * kTogether);
  for (int64_t first = 0; first < m; first += kTogether) {
    const int64_t count = std::min<int64_t>(kTogether, m - first);
    put_side_by_side(b + first * d, count, d, side.data());
    simd([=, side = side.data()] {
      for (int64_t i = 0; i < rows; ++i) {
        T sum[kTogether];
        T* to = y + i * m + first;
        if (squares) {
          totals(a + i * d, side, d, sum, [](T v) { return v * v; });
          for (int64_t j = 0; j < count; ++j) to[j] = std::sqrt(sum[j]);
        } else {
          totals(a + i * d, side, d, sum, [](T v) { return v < 0 ? -v : v; });
          for (int64_t j = 0; j < count; ++j) to[j] = sum[j];
        }
      }
    });
  }
}

// One row of y: the distances of one point to m others.
template <class T>
void row(double p, const T* a, const T* b, T* y, int64_t m, int64_t d) {
  if (p == 2)
    return simd([=] {
      for (int64_t j = 0; j < m; ++j)
        y[j] = std::sqrt(total(a, b + j * d, d, [](T v) { return v * v; }));
    });
  if (p == 1)
    return simd([=] {
      for (int64_t j = 0; j < m; ++j)
        y[j] = total(a, b + j * d, d, [](T v) { return v < 0 ? -v : v; });
    });
  for (int64_t j = 0; j < m; ++j) {
    const T* other = b + j * d;
    if (std::isinf(p)) {
      y[j] = largest(a, other, d);
    } else if (p == 0) {
      y[j] = total(a, other, d, [](T v) { return static_cast<T>(v != 0); });
    } else {
      double sum = 0;
      for (int64_t k = 0; k < d; ++k) sum += std::pow(std::abs(double{a[k]} - other[k]), p);
      y[j] = static_cast<T>(std::pow(sum, 1 / p));
    }
  }
}

}  // namespace

template <class T>
void distances(double p, const T* a, const T* b, T* y, int64_t batch, int64_t n, int64_t m,
               int64_t d) {
  // A few points of many numbers, such as a query beside embeddings, do not pay for the copies.
  const bool together = (p == 1 || p == 2) && (n >= 4 || d <= 64);
  parallel_for(batch * n, kDistanceGrain / (m * d + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t last = together ? std::min(end, (i / n + 1) * n) : i + 1;
      const T *from = a + i * d, *others = b + i / n * m * d;
      if (together)
        rows_side_by_side(p == 2, from, others, y + i * m, last - i, m, d);
      else
        row(p, from, others, y + i * m, m, d);
      i = last;
    }
  });
}

template void distances(double, const float*, const float*, float*, int64_t, int64_t, int64_t,
                        int64_t);
template void distances(double, const double*, const double*, double*, int64_t, int64_t, int64_t,
                        int64_t);

}  // namespace tern::kernels
