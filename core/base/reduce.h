// Reductions over a contiguous row, for use inside simd(). g++ and clang vectorise them.
// Inside of core only.
#pragma once

#include <cstdint>
#include <limits>

namespace tern::kernels {

/// x[0] + ... + x[n-1], summed in A (float or double).
template <class A, class T>
[[gnu::always_inline]] inline A sum_of(const T* x, int64_t n) {
  A s = 0;
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += static_cast<A>(x[i]);
  return s;
}

/// f(0) + ... + f(n-1) for f returning T. Sums blocks in T and their sums in double: about as fast
/// as a sum in T and, for long rows, about as accurate as one in double.
template <class T, class F>
[[gnu::always_inline]] inline double blocked_sum(int64_t n, F f) {
  constexpr int64_t kBlock = 512;
  double total = 0;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t last = first + kBlock < n ? first + kBlock : n;
    T s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = first; i < last; ++i) s += f(i);
    total += static_cast<double>(s);
  }
  return total;
}

/// The best of x; pick(new, old) returns the better of two. Keeps 32 running values, so that it
/// vectorises.
template <class T, class Pick>
[[gnu::always_inline]] inline T best_of(const T* x, int64_t n, T start, Pick pick) {
  constexpr int kLanes = 32;
  int64_t i = 0;
  T best = start;
  if (n >= kLanes) {
    T lane[kLanes];
    for (int l = 0; l < kLanes; ++l) lane[l] = start;
    for (; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lane[l] = pick(x[i + l], lane[l]);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] = pick(lane[l + half], lane[l]);
    best = lane[0];
  }
  for (; i < n; ++i) best = pick(x[i], best);
  return best;
}

/// The larger of x and best; a NaN stays. Two steps, because `x > best ? x : best` is one
/// instruction, while a single condition would become a branch that is often mispredicted.
template <class T>
[[gnu::always_inline]] inline T larger(T x, T best) {
  T r = x > best ? x : best;
  return x != x ? x : r;
}

template <class T>
[[gnu::always_inline]] inline T smaller(T x, T best) {
  T r = x < best ? x : best;
  return x != x ? x : r;
}

/// The largest of x; NaN if there is one, -inf if n is 0.
template <class T>
[[gnu::always_inline]] inline T max_of(const T* x, int64_t n) {
  return best_of(x, n, -std::numeric_limits<T>::infinity(), [](T a, T b) { return larger(a, b); });
}

/// The smallest of x; NaN if there is one, +inf if n is 0.
template <class T>
[[gnu::always_inline]] inline T min_of(const T* x, int64_t n) {
  return best_of(x, n, std::numeric_limits<T>::infinity(), [](T a, T b) { return smaller(a, b); });
}

}  // namespace tern::kernels
