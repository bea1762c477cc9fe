// 16 floats in a register of AVX-512, by the compiler's vector type. Inside of core only.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <utility>

namespace tern::kernels {

/// 16 floats in one register.
typedef float Vector __attribute__((vector_size(64)));
constexpr int kLanes = 16;
/// 16 floats at any address. A struct, as in the compilers' own headers: a vector type that is
/// itself aligned(4) keeps that only under its own name, not in references or template arguments.
struct [[gnu::packed, gnu::may_alias]] Anywhere {
  Vector vector;
};
static_assert(alignof(Anywhere) == 1 && sizeof(Anywhere) == sizeof(Vector));

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Vector load(const float* p) {
  return reinterpret_cast<const Anywhere*>(p)->vector;
}
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void store(float* p, Vector v) {
  reinterpret_cast<Anywhere*>(p)->vector = v;
}

/// The elements of x and y by turns: the first 16 of them, and the rest.
template <size_t... kIndex>
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void zip(
    const Vector& x, const Vector& y, Vector& low, Vector& high, std::index_sequence<kIndex...>) {
  low = __builtin_shufflevector(x, y, static_cast<int>(kIndex / 2 + kIndex % 2 * kLanes)...);
  high = __builtin_shufflevector(
      x, y, static_cast<int>(kLanes / 2 + kIndex / 2 + kIndex % 2 * kLanes)...);
}

/// Transposes 16 x 16 elements: four rounds of zipping the upper half with the lower.
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void transpose(Vector* x) {
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    Vector y[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i)
      zip(x[i], x[i + kLanes / 2], y[2 * i], y[2 * i + 1], std::make_index_sequence<kLanes>());
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

}  // namespace tern::kernels

#endif
