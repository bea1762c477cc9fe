// Reductions over a contiguous row, for use inside simd(). g++ and clang vectorise them. They give
// the same bits at every vector level.
// Inside of core only.
#pragma once

#include <cstdint>
#include <limits>

namespace tern::kernels {

/// The number of partial sums in a sum of floating-point numbers, at every vector level. Term i is
/// added to partial sum i % 16. In a reduction by the compiler this number would depend on the
/// registers, and so each level would give other bits.
constexpr int kSumLanes = 16;

template <class A>
struct LaneSum {
  A lane[kSumLanes] = {};
  /// The sum of the lanes: adds the upper half to the lower half until one number is left.
  [[gnu::always_inline]] inline A total() {
    typedef A Eight __attribute__((vector_size(8 * sizeof(A))));
    typedef A Four __attribute__((vector_size(4 * sizeof(A))));
    asm("" : "+m"(lane));  // else clang fills registers in the order of the sums below
    Eight a, b;
    __builtin_memcpy(&a, lane, sizeof a);
    __builtin_memcpy(&b, lane + 8, sizeof b);
    a += b;
    const Four c =
        __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
    return (c[0] + c[2]) + (c[1] + c[3]);
  }
};

/// Calls f(i, i % 16) for i = 0, ..., n - 1, in vectors: f adds to lane[i % 16] of LaneSums, which
/// it captures by reference. It must capture all else by value.
template <class F>
[[gnu::always_inline]] inline void each_lane(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
#pragma omp simd
    for (int l = 0; l < kSumLanes; ++l) f(i + l, l);
  const int rest = static_cast<int>(n - i);
  for (int l = 0; l < rest; ++l) f(i + l, l);
}

/// f(0) + ... + f(n-1), summed in A (float or double).
template <class A, class F>
[[gnu::always_inline]] inline A lane_sum(int64_t n, F f) {
  LaneSum<A> s;
  each_lane(n, [f, &s](int64_t i, int l) { s.lane[l] += static_cast<A>(f(i)); });
  return s.total();
}

/// x[0] + ... + x[n-1], summed in A (float or double).
template <class A, class T>
[[gnu::always_inline]] inline A sum_of(const T* x, int64_t n) {
  return lane_sum<A>(n, [x](int64_t i) { return x[i]; });
}

constexpr int64_t kSumBlock = 512;  // terms of a blocked sum that are added in T

/// f(0) + ... + f(n-1) for f returning T. Sums blocks in T, and adds their sums in double. About as
/// fast as a sum in T and, for long rows, about as accurate as a sum in double.
template <class T, class F>
[[gnu::always_inline]] inline double blocked_sum(int64_t n, F f) {
  double total = 0;
  for (int64_t first = 0; first < n; first += kSumBlock) {
    const int64_t last = first + kSumBlock < n ? first + kSumBlock : n;
    total += static_cast<double>(
        lane_sum<T>(last - first, [f, first](int64_t i) { return f(first + i); }));
  }
  return total;
}

constexpr int kSideBySide = 32;  // sums that blocked_sums() computes side by side, at most

/// total[w] = f(0, w) + ... + f(n-1, w) for w < count, each with the bits of blocked_sum(). For
/// lines whose elements are neighbours of the next line's. `count` is an int, or a constant of that
/// value.
template <class T, class F>
[[gnu::always_inline]] inline void blocked_sums(int64_t n, auto count, double* total, F f) {
  T lane[kSumLanes][kSideBySide];
  for (int w = 0; w < count; ++w) total[w] = 0;
  for (int64_t first = 0; first < n; first += kSumBlock) {
    const int64_t last = first + kSumBlock < n ? first + kSumBlock : n;
    for (auto& l : lane)
      for (int w = 0; w < count; ++w) l[w] = 0;
    for (int64_t j = first; j < last; ++j) {
      T* l = lane[j % kSumLanes];  // kSumBlock is a multiple of kSumLanes
#pragma omp simd
      for (int w = 0; w < count; ++w) l[w] += f(j, w);
    }
    for (int half = kSumLanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i)
        for (int w = 0; w < count; ++w) lane[i][w] += lane[i + half][w];
    for (int w = 0; w < count; ++w) total[w] += static_cast<double>(lane[0][w]);
  }
}

/// The best element of x. pick(new, old) returns the better of two. Keeps 32 running values, so
/// that the loop is vectorised.
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
