// Distances of every point to all points of the other set. p = 1 and p = 2 are vector code.
#include "tern/core/kernels/linalg/distance.h"

#include <cmath>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"

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
  parallel_for(batch * n, kDistanceGrain / (m * d + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(p, a + i * d, b + i / n * m * d, y + i * m, m, d);
  });
}

template void distances(double, const float*, const float*, float*, int64_t, int64_t, int64_t,
                        int64_t);
template void distances(double, const double*, const double*, double*, int64_t, int64_t, int64_t,
                        int64_t);

}  // namespace tern::kernels
