// Packing of operands for bf16 tiles by AVX512_BF16 and AMX. Both process groups of 32 places of k,
// packed as 16 pairs. A pair of A is a 32-bit word of a row. The same pair of 32 columns of B is a
// row of 32 words. Inside of core only, for x86-64.
#pragma once

#include <immintrin.h>

#include <array>

#include "tern/core/kernels/bf16/gemm_bf16_ways.h"
#include "tern/core/kernels/bf16/vector16.h"

namespace tern::kernels::bf16 {

inline constexpr int64_t kPairs = kBf16Group / 2;
inline constexpr int64_t kColumns = 2 * kLanes;

inline int64_t groups_of(int64_t depth) { return ceil_div(depth, kBf16Group); }

/// For each half of a group's 16 pairs, the place of k that it holds.
struct PairOrder {
  std::array<int16_t, kBf16Group> place;  // lower half of pair 0, upper half of pair 0, ...
};

constexpr PairOrder in_order() {
  PairOrder o{};
  for (int i = 0; i < kBf16Group; ++i) o.place[static_cast<size_t>(i)] = static_cast<int16_t>(i);
  return o;
}

constexpr PairOrder even_then_odd() {
  PairOrder o{};
  for (int i = 0; i < kPairs; ++i) {
    const int first = i < kPairs / 2 ? 4 * i : 4 * (i - kPairs / 2) + 1;
    o.place[static_cast<size_t>(2 * i)] = static_cast<int16_t>(first + 2);
    o.place[static_cast<size_t>(2 * i + 1)] = static_cast<int16_t>(first);
  }
  return o;
}

/// A permutation that interleaves kCount 16-bit words with the next kCount.
template <int kCount>
inline constexpr std::array<int16_t, 32> kByTurns = [] {
  std::array<int16_t, 32> t{};
  for (int i = 0; i < 32; ++i)
    t[static_cast<size_t>(i)] =
        static_cast<int16_t>(i / (2 * kCount) * 2 * kCount + i % (2 * kCount) / 2 + i % 2 * kCount);
  return t;
}();

inline __mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << std::max<int64_t>(n, 0)) - 1);
}

/// Rounds 32 numbers to bfloat16. `low` holds the first 16.
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i rounded(
    __m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// 32 numbers as bfloat16, 16 from each address. Numbers outside the masks `low` and `high` are 0.
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i words_of(
    const float* first, __mmask16 low, const float* second, __mmask16 high) {
  return rounded(_mm512_maskz_loadu_ps(low, first), _mm512_maskz_loadu_ps(high, second));
}
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i words_of(
    const Bf16* first, __mmask16 low, const Bf16* second, __mmask16 high) {
  // Masked places are not read, including those before `second`.
  const void* before = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(second) - 32);
  return _mm512_or_si512(_mm512_maskz_loadu_epi16(low, first),
                         _mm512_maskz_loadu_epi16(static_cast<__mmask32>(high) << 16, before));
}

/// The first 8 numbers of each of four rows as bfloat16, row after row. Numbers outside the mask
/// are 0.
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i words_of(
    const float* const (&row)[4], __mmask8 lanes) {
  __m512 low = _mm512_castps256_ps512(_mm256_maskz_loadu_ps(lanes, row[0]));
  __m512 high = _mm512_castps256_ps512(_mm256_maskz_loadu_ps(lanes, row[2]));
  low = _mm512_insertf32x8(low, _mm256_maskz_loadu_ps(lanes, row[1]), 1);
  high = _mm512_insertf32x8(high, _mm256_maskz_loadu_ps(lanes, row[3]), 1);
  return rounded(low, high);
}
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i words_of(
    const Bf16* const (&row)[4], __mmask8 lanes) {
  __m512i words = _mm512_castsi128_si512(_mm_maskz_loadu_epi16(lanes, row[0]));
  words = _mm512_inserti32x4(words, _mm_maskz_loadu_epi16(lanes, row[1]), 1);
  words = _mm512_inserti32x4(words, _mm_maskz_loadu_epi16(lanes, row[2]), 2);
  return _mm512_inserti32x4(words, _mm_maskz_loadu_epi16(lanes, row[3]), 3);
}

/// Packing for tiles of kMaxRows rows. kInOrder: the numbers of a pair are neighbours. kLooksAhead:
/// prefetches B before packing it, which costs instructions.
template <bool kInOrder, int64_t kMaxRows, int64_t kDepth, bool kLooksAhead>
struct Pairs {
  using Packed = uint16_t;
  static constexpr int64_t kRows = kMaxRows, kColumns = 2 * kLanes, kMaxDepth = kDepth;
  static constexpr int64_t kBlockTiles = 168 / kMaxRows, kGroup = kBf16Group, kFewRows = 256;
  static constexpr bool kReadsB = false, kTakesBf16 = true;
  static constexpr int64_t kPadding = kBf16Group, kSlack = kLanes * kBf16Group;
  static constexpr WordOrder kWords = kInOrder ? WordOrder::neighbours : WordOrder::even_and_odd;
  static constexpr PairOrder kOrder = kInOrder ? in_order() : even_then_odd();

  // A tile with fewer rows may read beyond them and ignores those results.
  static int64_t room_a(int64_t tiles, int64_t depth) {
    return (tiles * kRows + kLanes) * groups_of(depth) * kBf16Group;
  }
  static int64_t room_b(int64_t depth) { return kColumns * groups_of(depth) * kBf16Group; }
  static int64_t size_a(int64_t rows, int64_t depth) {
    return rows * groups_of(depth) * kBf16Group;
  }
  static int64_t first_depth(int64_t k, int64_t depths, int64_t d) {
    return std::min(k, part(groups_of(k), depths, d) * kBf16Group);
  }

  /// Where pack_b writes place k of a column.
  static int64_t place_b(int64_t, int64_t k, int64_t column) {
    static constexpr auto kHalf = [] {
      std::array<int64_t, kBf16Group> half{};
      for (size_t i = 0; i < half.size(); ++i) half[static_cast<size_t>(kOrder.place[i])] = i;
      return half;
    }();
    const int64_t half = kHalf[static_cast<size_t>(k % kBf16Group)];
    return k / kBf16Group * kColumns * kBf16Group + (half / 2 * kColumns + column) * 2 + half % 2;
  }

  /// The 16 pairs of a row: `count` places from `from` on, then zeros.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline Vector row_of(
      const From* from, int64_t count) {
    const __m512i words =
        words_of(from, first_lanes(count), from + kLanes, first_lanes(count - kLanes));
    if constexpr (kInOrder) return reinterpret_cast<Vector>(words);
    const __m512i order = _mm512_loadu_si512(kOrder.place.data());
    return reinterpret_cast<Vector>(_mm512_permutexvar_epi16(order, words));
  }

  /// Pair p of up to 16 columns; places beyond `count` are zeros.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline Vector column_of(
      const From* from, int64_t stride, int64_t p, int64_t count, __mmask16 lanes) {
    const int64_t lower = kOrder.place[static_cast<size_t>(2 * p)];
    const int64_t upper = kOrder.place[static_cast<size_t>(2 * p + 1)];
    const __mmask16 none = 0;
    const __m512i words = words_of(from + lower * stride, lower < count ? lanes : none,
                                   from + upper * stride, upper < count ? lanes : none);
    const __m512i turns = _mm512_loadu_si512(kByTurns<16>.data());
    return reinterpret_cast<Vector>(_mm512_permutexvar_epi16(turns, words));
  }

  /// The 16 pairs of the first 16 of `columns` columns. Missing columns are 0.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline void columns_of(
      const From* from, int64_t stride, int64_t count, int64_t columns, Vector* to) {
    if (count == kBf16Group && columns >= kLanes) {  // the compiler then drops the masks
#pragma GCC unroll 16
      for (int64_t p = 0; p < kPairs; ++p)
        to[p] = column_of(from, stride, p, kBf16Group, static_cast<__mmask16>(0xffff));
    } else {
      for (int64_t p = 0; p < kPairs; ++p)
        to[p] = column_of(from, stride, p, count, first_lanes(columns));
    }
  }

  /// The 16 pairs of up to 8 columns, column by column. Before the transposition, two pairs that
  /// hold four neighbouring places share a vector.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline void
  few_columns_of(const From* from, int64_t stride, int64_t columns, Vector (&x)[8]) {
    static_assert(!kInOrder);
    const auto lanes = static_cast<__mmask8>(first_lanes(columns));
    const __m512i turns = _mm512_loadu_si512(kByTurns<8>.data());
#pragma GCC unroll 8
    for (int64_t p = 0; p < 8; ++p, from += 4 * stride) {
      const From* const row[4] = {from + 2 * stride, from, from + 3 * stride, from + stride};
      x[p] = reinterpret_cast<Vector>(_mm512_permutexvar_epi16(turns, words_of(row, lanes)));
    }
    transpose<8>(x);
  }

  /// Prefetches 32 places, which may lie beyond the end.
  template <class From>
  [[gnu::always_inline]] static inline void soon(const From* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
    if (sizeof(From) > 2) _mm_prefetch(reinterpret_cast<const char*>(from + kLanes), _MM_HINT_T0);
  }

  /// Prefetches one place of each row, for the next strip.
  template <class From>
  [[gnu::always_inline]] static inline void soon_below(const From* from, int64_t stride,
                                                       int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      _mm_prefetch(reinterpret_cast<const char*>(from + i * stride), _MM_HINT_T0);
  }

  static float* words(Packed* to) { return reinterpret_cast<float*>(to); }

  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16")]] static void pack_a(const From* from, int64_t stride,
                                                                  bool by_rows, int64_t rows,
                                                                  int64_t depth, Packed* to) {
    // The prefetch distance. Tiles of few rows are packed faster than memory delivers the next
    // tile, so they prefetch the tile after that.
    const int64_t further = kMaxRows <= 8 ? 2 * rows * stride : 2 * kBf16Group;
    for (int64_t k = 0; k < depth; k += kBf16Group, to += rows * kBf16Group) {
      const int64_t count = std::min(kBf16Group, depth - k);
      if (by_rows) {
        for (int64_t r = 0; r < rows; ++r) {
          const From* row = from + r * stride + k;
          soon(row + further);
          store(words(to + r * kBf16Group), row_of(row, count));
        }
        continue;
      }
      if constexpr (kMaxRows <= 8)
        if (count == kBf16Group) {
          Vector x[8];
          soon_below(from + (k + kBf16Group) * stride, stride, count);
          few_columns_of(from + k * stride, stride, rows, x);
          for (int64_t r = 0; r < rows; ++r) store(words(to + r * kBf16Group), x[r]);
          continue;
        }
      for (int64_t r = 0; r < rows; r += kLanes) {
        Vector x[kLanes];
        columns_of(from + k * stride + r, stride, count, rows - r, x);
        transpose(x);
        for (int64_t i = 0; i < std::min<int64_t>(kLanes, rows - r); ++i)
          store(words(to + (r + i) * kBf16Group), x[i]);
      }
    }
  }

  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16")]] static void pack_b(const From* from, int64_t stride,
                                                                  bool by_rows, int64_t columns,
                                                                  int64_t depth, Packed* to) {
    for (int64_t k = 0; k < depth; k += kBf16Group, to += kColumns * kBf16Group)
      for (int64_t j = 0; j < kColumns; j += kLanes) {
        const int64_t count = std::min(kBf16Group, depth - k);
        const int64_t lanes = std::min<int64_t>(columns - j, kLanes);
        if (lanes <= 0) continue;  // a tile of 16 columns does not read them
        Vector x[kLanes];
        if (by_rows) {
          if (kLooksAhead) soon_below(from + k * stride + j + kColumns, stride, count);
          columns_of(from + k * stride + j, stride, count, lanes, x);
        } else {
          for (int64_t i = 0; i < kLanes; ++i) {
            const From* column = from + (j + std::min(i, lanes - 1)) * stride + k;
            if (kLooksAhead) soon(column + 2 * kBf16Group);
            x[i] = row_of(column, count);
          }
          transpose(x);
        }
        for (int64_t p = 0; p < kPairs; ++p) store(words(to) + p * kColumns + j, x[p]);
      }
  }
};

/// Calls run(c, ldc) on a copy of a part of C that is smaller than the tile that run writes.
template <int64_t kRows, class Run>
void on_copy(int64_t rows, int64_t columns, float* c, int64_t ldc, bool add, Run run) {
  alignas(64) float whole[kRows * kColumns];
  for (int64_t r = 0; r < rows && add; ++r) std::copy_n(c + r * ldc, columns, whole + r * kColumns);
  run(whole, kColumns);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(whole + r * kColumns, columns, c + r * ldc);
}

}  // namespace tern::kernels::bf16
