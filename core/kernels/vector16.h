// 16 floats in an AVX-512 register, as a compiler vector type. Inside of core only.
#pragma once

#if defined(__x86_64__)

#include <cstddef>
#include <utility>

namespace tern::kernels {

/// 16 floats in one register.
typedef float Vector __attribute__((vector_size(64)));
constexpr int kLanes = 16;
/// 16 floats at any address. A struct, as in the compilers' own headers: a vector type with
/// aligned(4) loses that attribute in references and template arguments.
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

/// Source indices of shuffles of two registers (16 and more: the second one). Interleaves the lower
/// or upper half of every four elements, single elements or pairs; or takes the even or odd groups
/// of four from both. Each is one instruction without a table.
template <bool kUpper>
constexpr int single(size_t i) {
  return static_cast<int>(i / 4 * 4 + i % 4 / 2 + (kUpper ? 2 : 0) + i % 2 * kLanes);
}
template <bool kUpper>
constexpr int pair(size_t i) {
  return static_cast<int>(i / 4 * 4 + i % 2 + (kUpper ? 2 : 0) + i % 4 / 2 * kLanes);
}
template <bool kOdd>
constexpr int four(size_t i) {
  return static_cast<int>(i / 4 % 2 * 8 + (kOdd ? 4 : 0) + i % 4 + i / 8 * kLanes);
}

template <auto kFrom, size_t... kPlace>
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Vector shuffle(
    const Vector& x, const Vector& y, std::index_sequence<kPlace...>) {
  return __builtin_shufflevector(x, y, kFrom(kPlace)...);
}
template <auto kFrom>
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Vector shuffle(const Vector& x,
                                                                            const Vector& y) {
  return shuffle<kFrom>(x, y, std::make_index_sequence<kLanes>());
}

/// Transposes 16 x 16 elements. First blocks of 4 x 4; quarter q of x[4 n + c] is then column 4 q +
/// c of rows 4 n to 4 n + 3. Then the quarters.
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void transpose(Vector* x) {
  Vector y[kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    y[i] = shuffle<single<false>>(x[i], x[i + 1]);
    y[i + 1] = shuffle<single<true>>(x[i], x[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    const int j = i / 4 * 4 + i % 4 / 2;
    x[i] = shuffle<pair<false>>(y[j], y[j + 2]);
    x[i + 1] = shuffle<pair<true>>(y[j], y[j + 2]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const Vector even = shuffle<four<false>>(x[c], x[c + 4]);
    const Vector odd = shuffle<four<true>>(x[c], x[c + 4]);
    const Vector later_even = shuffle<four<false>>(x[c + 8], x[c + 12]);
    const Vector later_odd = shuffle<four<true>>(x[c + 8], x[c + 12]);
    x[c] = shuffle<four<false>>(even, later_even);
    x[c + 4] = shuffle<four<false>>(odd, later_odd);
    x[c + 8] = shuffle<four<true>>(even, later_even);
    x[c + 12] = shuffle<four<true>>(odd, later_odd);
  }
}

}  // namespace tern::kernels

#endif
