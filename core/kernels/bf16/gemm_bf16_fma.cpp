// bf16 products by f32 multiply-adds, for processors without bfloat16 instructions. Packed operands
// are rounded f32. In a group of 32 places of k, the even ones come first, then the odd ones. (In
// the other ways padding zeros turn a sum of -0 into +0. To match that, short groups add 0.)
#include <cmath>
#include <cstring>

#include "tern/core/base/simd.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/bf16/gemm_bf16_ways.h"
#include "tern/core/kernels/products/tile_table.h"
#include "tern/core/kernels/vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "tern/core/kernels/bf16/vector16.h"
#endif

namespace tern::kernels {
namespace {

constexpr int64_t kHalf = kBf16Group / 2;

/// The number of even places among the `depth` places of a group.
int64_t even_places(int64_t depth) { return (depth + 1) / 2; }

/// Packing for tiles of up to kMaxRows x kWidth.
template <int64_t kMaxRows, int64_t kWidth>
struct Rounded {
  using Packed = float;
  static constexpr int64_t kRows = kMaxRows, kColumns = kWidth, kMaxDepth = 512;
  static constexpr int64_t kBlockTiles = 168 / kMaxRows, kGroup = kBf16Group, kFewRows = 256;
  static constexpr bool kReadsB = false, kTakesBf16 = true;
  static constexpr WordOrder kWords = WordOrder::none;
  static constexpr int64_t kPadding = 1, kSlack = 0;

  static int64_t room_a(int64_t tiles, int64_t depth) { return tiles * kRows * depth; }
  static int64_t room_b(int64_t depth) { return kColumns * depth; }
  static int64_t size_a(int64_t rows, int64_t depth) { return rows * depth; }
  static int64_t first_row(int64_t m, int64_t tiles, int64_t t) { return part(m, tiles, t); }
  static int64_t first_depth(int64_t k, int64_t depths, int64_t d) {
    return std::min(k, part(ceil_div(k, kBf16Group), depths, d) * kBf16Group);
  }

  template <class From>
  static void pack_a(const From* from, int64_t stride, bool by_rows, int64_t rows, int64_t depth,
                     float* to) {
    pack<kMaxRows>(from, stride, by_rows, rows, depth, to, rows);
  }
  template <class From>
  static void pack_b(const From* from, int64_t stride, bool by_rows, int64_t columns, int64_t depth,
                     float* to) {
    pack<kWidth>(from, stride, !by_rows, columns, depth, to, kColumns);
  }
  /// Where pack_b writes place k of a column.
  static int64_t place_b(int64_t depth, int64_t k, int64_t column) {
    const int64_t i = k % kBf16Group, group = k - i;
    return (group + place_of(i, std::min(kBf16Group, depth - group))) * kColumns + column;
  }

 private:
  static int64_t place_of(int64_t i, int64_t count) {
    return i % 2 == 0 ? i / 2 : even_places(count) + i / 2;
  }

  /// to[place_of(i) * to_stride + j] = from[i * stride + j], or from[j * stride + i] if `turned`,
  /// for j < width <= kMost.
  template <int64_t kMost, class From>
  static void pack(const From* from, int64_t stride, bool turned, int64_t width, int64_t depth,
                   float* to, int64_t to_stride) {
    for (int64_t group = 0; group < depth; group += kBf16Group) {
      const int64_t count = std::min(kBf16Group, depth - group);
      float* rows = to + group * to_stride;
      simd([=] {
        if (turned)
          turn<kMost>(from + group, stride, width, count, rows, to_stride);
        else
          keep<kMost>(from + group * stride, stride, width, count, rows, to_stride);
      });
    }
  }

  /// Prefetches x[further], which is packed next and may lie beyond the end, as for f32 tiles.
  template <class From>
  [[gnu::always_inline]] static inline void fetch(const From* x, int64_t further) {
    __builtin_prefetch(reinterpret_cast<const void*>(
        reinterpret_cast<uintptr_t>(x) + static_cast<uintptr_t>(further) * sizeof(From)));
  }

  /// y[j] = as_factor(x[j]) for j < 4, by vectors: compilers leave such short loops as they are.
  [[gnu::always_inline]] static inline void round_four(const float* x, float* y) {
    using Four = uint32_t __attribute__((vector_size(16)));
    Four bits;
    std::memcpy(&bits, x, sizeof bits);
    const Four size = bits & 0x7fffffffu, upper = bits & 0xffff0000u;
    const Four nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    const Four number = size > 0x7f800000u ? upper | 0x00400000u : nearest;
    bits = size < 0x00800000u ? bits & 0x80000000u : number;
    std::memcpy(y, &bits, sizeof bits);
  }
  [[gnu::always_inline]] static inline void round_four(const Bf16* x, float* y) {
    for (int j = 0; j < 4; ++j) y[j] = as_factor(x[j]);
  }

  template <int64_t kMost, class From>
  [[gnu::always_inline]] static inline void keep(const From* from, int64_t stride, int64_t width,
                                                 int64_t count, float* to, int64_t to_stride) {
    for (int64_t i = 0; i < count; ++i) {
      const From* x = from + i * stride;
      float* y = to + place_of(i, count) * to_stride;
      fetch(x, kBf16Group * stride);
      if (kMost < 8 && width >= 4) {  // two vectors that may overlap
        round_four(x, y);
        round_four(x + width - 4, y + width - 4);
      } else if (width == kMost) {
        for (int64_t j = 0; j < kMost; ++j) y[j] = as_factor(x[j]);
      } else {
        for (int64_t j = 0; j < width; ++j) y[j] = as_factor(x[j]);
      }
    }
  }

  template <int64_t kMost, class From>
  [[gnu::always_inline]] static inline void turn(const From* from, int64_t stride, int64_t width,
                                                 int64_t count, float* to, int64_t to_stride) {
    float row[kMost][kBf16Group];
    for (int64_t j = 0; j < width; ++j) {
      const From* x = from + j * stride;
      fetch(x, width * stride);
      if (count == kBf16Group) {
        for (int64_t i = 0; i < kBf16Group; ++i) row[j][i] = as_factor(x[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) row[j][i] = as_factor(x[i]);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      float* y = to + place_of(i, count) * to_stride;
      for (int64_t j = 0; j < width; ++j) y[j] = row[j][i];
    }
  }
};

/// Computes element by element, with the C library's fused multiply-add.
struct Plain : Rounded<4, 16> {
  struct Scope {};

  static float sum(const float* a, int64_t rows, const float* b, int64_t places) {
    float s = 0;
    for (int64_t i = 0; i < places; ++i) s = flushed(std::fma(a[i * rows], b[i * kColumns], s));
    return places < kHalf ? s + 0.f : s;
  }

  static void tile(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                   int64_t, float* c, int64_t ldc, bool add) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < columns; ++j) {
        float s = add ? flushed(c[r * ldc + j]) : 0.f;
        for (int64_t k = 0; k < depth; k += kBf16Group) {
          const int64_t count = std::min(kBf16Group, depth - k), even = even_places(count);
          const float* x = a + k * rows + r;
          const float* y = b + k * kColumns + j;
          const float first = sum(x, rows, y, even);
          const float second = sum(x + even * rows, rows, y + even * kColumns, count - even);
          s = flushed(s + flushed(first + second));
        }
        c[r * ldc + j] = s;
      }
  }
};

#if defined(__x86_64__) || defined(__aarch64__)

/// kRows x kVectors vectors that stay in registers.
template <class V, int kRows, int kVectors>
struct Sums {
  static constexpr int kWidth = sizeof(V) / sizeof(float);
  V at[kRows][kVectors];

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at[r][v] = V{};
  }
  /// Adds a column of A times a row of B.
  [[gnu::always_inline]] void add_place(const float* a, const float* b) {
    V row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) load(row[v], b + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at[r][v] += a[r] * row[v];
  }
  [[gnu::always_inline]] void add_zero() {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) at[r][v] += V{};
  }
};

/// C (kRows x kVectors vectors) = or += A B.
template <class V, int kRows, int kVectors>
[[gnu::always_inline]] inline void fused_tile(int64_t depth, const float* a, const float* b,
                                              float* c, int64_t ldc, bool add) {
  using S = Sums<V, kRows, kVectors>;
  constexpr int kColumns = S::kWidth * kVectors;
  for (int r = 0; r < kRows && add; ++r)  // the first group's sums need it
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + r * ldc + v * S::kWidth, 1);
  for (int64_t k = 0; k < depth; k += kBf16Group, add = true) {
    const int64_t count = std::min(kBf16Group, depth - k);
    const int64_t evens = even_places(count), odds = count - evens;
    const float* odd_a = a + evens * kRows;
    const float* odd_b = b + evens * kColumns;
    S even, odd;
    even.clear();
    odd.clear();
    for (int64_t i = 0; i < odds; ++i) {
      even.add_place(a + i * kRows, b + i * kColumns);
      odd.add_place(odd_a + i * kRows, odd_b + i * kColumns);
    }
    if (evens > odds) even.add_place(a + odds * kRows, b + odds * kColumns);
    if (evens < kHalf) even.add_zero();
    if (odds < kHalf) odd.add_zero();
    a += count * kRows;
    b += count * kColumns;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        auto* to = reinterpret_cast<AnyPlace<V>*>(c + r * ldc + v * S::kWidth);
        to->vector = (add ? to->vector : V{}) + (even.at[r][v] + odd.at[r][v]);
      }
  }
}

using FusedTile = void (*)(int64_t, const float*, const float*, float*, int64_t, bool);

template <int64_t kMaxRows, int64_t kWidth, const auto& kTiles>
struct Fused : Rounded<kMaxRows, kWidth> {
  using Scope = FlushScope;

  static void tile(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                   int64_t, float* c, int64_t ldc, bool add) {
    const FusedTile run = kTiles[static_cast<size_t>(rows - 1)];
    if (columns == kWidth) return run(depth, a, b, c, ldc, add);
    alignas(64) float whole[kMaxRows * kWidth];
    for (int64_t r = 0; r < rows && add; ++r) std::copy_n(c + r * ldc, columns, whole + r * kWidth);
    run(depth, a, b, whole, kWidth, add);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(whole + r * kWidth, columns, c + r * ldc);
  }
};

#if defined(__x86_64__)
template <int kRows>
[[gnu::target("arch=x86-64-v4")]] void tile512(int64_t depth, const float* a, const float* b,
                                               float* c, int64_t ldc, bool add) {
  fused_tile<Vector, kRows, 2>(depth, a, b, c, ldc, add);
}

template <int kRows>
[[gnu::target("arch=x86-64-v3")]] void tile256(int64_t depth, const float* a, const float* b,
                                               float* c, int64_t ldc, bool add) {
  fused_tile<Vector8, kRows, 2>(depth, a, b, c, ldc, add);
}

constexpr auto kTiles512 = tile_table<7>([](auto rows) { return tile512<rows>; });
constexpr auto kTiles256 = tile_table<3>([](auto rows) { return tile256<rows>; });
using Fused512 = Fused<7, 32, kTiles512>;
using Fused256 = Fused<3, 16, kTiles256>;
#else
template <int kRows>
void tile128(int64_t depth, const float* a, const float* b, float* c, int64_t ldc, bool add) {
  fused_tile<Vector4, kRows, 2>(depth, a, b, c, ldc, add);
}
constexpr auto kTiles128 = tile_table<4>([](auto rows) { return tile128<rows>; });
using Fused128 = Fused<4, 8, kTiles128>;
#endif

#endif

}  // namespace

const Bf16Kernels& bf16_portable() { return bf16_kernels_of<Plain>(); }
#if defined(__aarch64__)
const Bf16Kernels& bf16_neon() { return bf16_kernels_of<Fused128>(); }
#elif defined(__x86_64__)
const Bf16Kernels& bf16_avx2() { return bf16_kernels_of<Fused256>(); }
const Bf16Kernels& bf16_avx512() { return bf16_kernels_of<Fused512>(); }
#endif

}  // namespace tern::kernels
