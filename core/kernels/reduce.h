// Reductions over a contiguous row, for use inside simd(): vectorised by g++ and clang.
// Kernels see pointers and sizes only: nothing in this folder includes tensor.h.
#pragma once

#include <cstdint>
#include <limits>

namespace tern::kernels {

/// x[0] + ... + x[n-1], summed in type A (float or double).
template <class A, class T>
[[gnu::always_inline]] inline A sum_of(const T* x, int64_t n) {
  A s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += static_cast<A>(x[i]);
  return s;
}

/// The best of x by `better(new, old)`, with 32 running values so that it vectorises.
template <class T, class Better>
[[gnu::always_inline]] inline T best_of(const T* x, int64_t n, T start, Better better) {
  constexpr int kLanes = 32;
  int64_t i = 0;
  T best = start;
  if (n >= kLanes) {
    T lane[kLanes];
    for (int l = 0; l < kLanes; ++l) lane[l] = start;
    for (; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lane[l] = better(x[i + l], lane[l]) ? x[i + l] : lane[l];
    for (int l = 0; l < kLanes; ++l) best = better(lane[l], best) ? lane[l] : best;
  }
  for (; i < n; ++i) best = better(x[i], best) ? x[i] : best;
  return best;
}

/// Largest of x; NaN if there is one, -inf if n is 0.
template <class T>
[[gnu::always_inline]] inline T max_of(const T* x, int64_t n) {
  return best_of(x, n, -std::numeric_limits<T>::infinity(),
                 [](T a, T b) { return (a > b) | (a != a); });
}

/// Smallest of x; NaN if there is one, +inf if n is 0.
template <class T>
[[gnu::always_inline]] inline T min_of(const T* x, int64_t n) {
  return best_of(x, n, std::numeric_limits<T>::infinity(),
                 [](T a, T b) { return (a < b) | (a != a); });
}

}  // namespace tern::kernels
