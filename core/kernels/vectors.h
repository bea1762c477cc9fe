// Vectors of 4, 8 and 16 f32 numbers, with the transposition of square blocks, and loads and stores
// of vectors of any type. For code that must stay in registers; elsewhere use loops for simd()
// (base/simd.h). All are templates that are inlined into functions with a target. They take vectors
// by reference, since targets pass vectors by value differently. Inside of core only.
#pragma once

#include <cstddef>
#include <utility>

namespace tern::kernels {

typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector4 __attribute__((vector_size(16)));

template <class V>
constexpr int kLanesOf = static_cast<int>(sizeof(V) / sizeof(float));

/// A vector at any address. A struct, as in the compilers' own headers: a vector type with
/// aligned(4) loses that attribute in references and template arguments.
template <class V>
struct [[gnu::packed, gnu::may_alias]] AnyPlace {
  V vector;
};
static_assert(alignof(AnyPlace<Vector16>) == 1 && sizeof(AnyPlace<Vector16>) == sizeof(Vector16));

template <class V, class T>
[[gnu::always_inline]] inline void load(V& v, const T* p) {
  v = reinterpret_cast<const AnyPlace<V>*>(p)->vector;
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* p, const V& v) {
  reinterpret_cast<AnyPlace<V>*>(p)->vector = v;
}

namespace shuffles {

// Indices for shuffles of two vectors of n numbers. single and pair interleave numbers, or pairs of
// them, within each 16 bytes. half joins halves of each 8 numbers. four takes every other 16 bytes
// of vectors of 16.
template <bool kUpper>
constexpr int single(int i, int n) {
  return i / 4 * 4 + i % 4 / 2 + (kUpper ? 2 : 0) + i % 2 * n;
}
template <bool kUpper>
constexpr int pair(int i, int n) {
  return i / 4 * 4 + i % 2 + (kUpper ? 2 : 0) + i % 4 / 2 * n;
}
template <bool kUpper>
constexpr int half(int i, int n) {
  return i / 8 * 8 + i % 4 + (kUpper ? 4 : 0) + i % 8 / 4 * n;
}
template <bool kOdd>
constexpr int four(int i, int n) {
  return i / 4 % 2 * 8 + (kOdd ? 4 : 0) + i % 4 + i / 8 * n;
}

template <auto kFrom, class V, size_t... kPlace>
[[gnu::always_inline]] inline void shuffle(V& to, const V& x, const V& y,
                                           std::index_sequence<kPlace...>) {
  to = __builtin_shufflevector(x, y, kFrom(static_cast<int>(kPlace), kLanesOf<V>)...);
}
template <auto kFrom, class V>
[[gnu::always_inline]] inline void shuffle(V& to, const V& x, const V& y) {
  shuffle<kFrom>(to, x, y, std::make_index_sequence<kLanesOf<V>>());
}

}  // namespace shuffles

/// Transposes squares of kSide x kSide numbers that stand side by side in kSide vectors: in each
/// square the new x[i][j] is the old x[j][i].
template <int kSide, class V>
[[gnu::always_inline]] inline void transpose(V* x) {
  using namespace shuffles;  // NOLINT
  V y[kSide];
#pragma GCC unroll 8
  for (int i = 0; i < kSide; i += 2) {
    shuffle<single<false>>(y[i], x[i], x[i + 1]);
    shuffle<single<true>>(y[i + 1], x[i], x[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kSide; i += 2) {
    const int j = i / 4 * 4 + i % 4 / 2;
    shuffle<pair<false>>(x[i], y[j], y[j + 2]);
    shuffle<pair<true>>(x[i + 1], y[j], y[j + 2]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    if constexpr (kSide == 8) {
      const V lower = x[c], upper = x[c + 4];
      shuffle<half<false>>(x[c], lower, upper);
      shuffle<half<true>>(x[c + 4], lower, upper);
    }
    if constexpr (kSide == 16) {
      V even, odd, later_even, later_odd;
      shuffle<four<false>>(even, x[c], x[c + 4]);
      shuffle<four<true>>(odd, x[c], x[c + 4]);
      shuffle<four<false>>(later_even, x[c + 8], x[c + 12]);
      shuffle<four<true>>(later_odd, x[c + 8], x[c + 12]);
      shuffle<four<false>>(x[c], even, later_even);
      shuffle<four<false>>(x[c + 4], odd, later_odd);
      shuffle<four<true>>(x[c + 8], even, later_even);
      shuffle<four<true>>(x[c + 12], odd, later_odd);
    }
  }
}

/// Transposes one square: the number of vectors equals the number of lanes.
template <class V>
[[gnu::always_inline]] inline void transpose(V* x) {
  transpose<kLanesOf<V>>(x);
}

}  // namespace tern::kernels
