// Vector code chosen at run time: simd(f) runs f, compiled for the best vector unit of this
// processor. One source, no intrinsics: the compiler vectorises the loops in f for three targets.
//
//   void scale(const float* x, float* y, int64_t n, float a) {
//     simd([=] {
//       for (int64_t i = 0; i < n; ++i) y[i] = a * x[i];
//     });
//   }
//   float sum = simd([=] { return sum_of(x, n); });  // a function like scale, always_inline
//
// f is inlined into a function template with a target attribute, so all of f is compiled for that
// target. Code that is not inlined stays baseline code: correct, but slow. Rules, each read off the
// assembly of g++ 12 and clang 14:
//  1. Capture by value ([=]) and return results. g++ does not vectorise a loop that accumulates
//     into a variable captured by reference, or a reduction over pointers captured by reference.
//  2. Call only [[gnu::always_inline]] inline functions (as those of vmath.h) or small lambdas. Of
//     other calls, g++ inlines all levels by `flatten`, clang only the first level.
//  3. For sums use lane_sum or each_lane of base/reduce.h. A plain float sum stays scalar, since
//     the compiler may not reorder it. `#pragma omp simd reduction(+ : s)` has other bits at each
//     level.
//  4. For the largest and smallest use max_of and min_of of base/reduce.h. Without fast-math clang
//     cannot vectorise reduction(max : m) on floats, and warns.
//  5. No parallel_for, allocation or exception inside: put simd() inside the body of parallel_for,
//     around the loops.
//  6. Use ?: instead of branches that store, so that the loop can be vectorised.
// To compile vector code, link the CMake target tern::vector_code.
#pragma once

#include "tern/core/base/cpu.h"

namespace tern {
namespace detail {

#if defined(__x86_64__)
template <class F>
[[gnu::target("arch=x86-64-v4"), gnu::flatten]] auto call_avx512(F f) {
  return f();
}

template <class F>
[[gnu::target("arch=x86-64-v3"), gnu::flatten]] auto call_avx2(F f) {
  return f();
}
#endif

}  // namespace detail

/// Runs a function, compiled for the best vector unit of this processor, and returns its result:
/// avx512() with AVX-512, avx2() with AVX2, otherwise f(). For code that names its vectors: g++
/// takes those that are wider than a register apart, number by number.
template <class Avx512, class Avx2, class F>
auto simd([[maybe_unused]] Avx512 avx512, [[maybe_unused]] Avx2 avx2, F f) {
#if defined(__x86_64__)
  if (detail::vector_level == VectorLevel::kAvx512) return detail::call_avx512(avx512);
  if (detail::vector_level == VectorLevel::kAvx2) return detail::call_avx2(avx2);
#endif
  return f();
}
/// The same with one function.
template <class F>
auto simd(F f) {
  return simd(f, f, f);
}

}  // namespace tern
