// Tiles of bfloat16 by AVX512_BF16 and by AMX. Both take 32 places of k at a time, packed as 16
// pairs: a pair of A is a 32-bit word of a row, and the same pair of 32 columns of B is a row of 32
// words. What makes up a pair differs. TDPBF16PS sums the lower halves (even k) and the upper ones
// (odd k) apart; VDPBF16PS adds both halves to one sum, the upper one first. So for the latter the
// first eight pairs are (k + 2, k) for the even places, and the others the same for the odd ones.
#include "tern/core/kernels/gemm_bf16_ways.h"
#include "tern/core/kernels/vector16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <atomic>
#include <cstring>

namespace tern::kernels {
namespace {

constexpr int64_t kPairs = kBf16Group / 2;
constexpr int64_t kColumns = 2 * kLanes;

int64_t groups_of(int64_t depth) { return ceil_div(depth, kBf16Group); }

/// Which places of a group the halves of its 16 pairs hold.
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

/// Puts words of 16 bits by turns: the first 16 beside the last 16.
constexpr std::array<int16_t, 32> kByTurns = [] {
  std::array<int16_t, 32> t{};
  for (int i = 0; i < 32; ++i) t[static_cast<size_t>(i)] = static_cast<int16_t>(i / 2 + i % 2 * 16);
  return t;
}();

__mmask16 first_lanes(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << std::max<int64_t>(n, 0)) - 1);
}

/// 32 numbers, the first 16 from `low`, as bfloat16.
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i rounded(
    __m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// 32 numbers as bfloat16: as far as `low` and `high` say, 16 from each address, and zeros.
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i words_of(
    const float* first, __mmask16 low, const float* second, __mmask16 high) {
  return rounded(_mm512_maskz_loadu_ps(low, first), _mm512_maskz_loadu_ps(high, second));
}
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline __m512i words_of(
    const Bf16* first, __mmask16 low, const Bf16* second, __mmask16 high) {
  // Masked places are not read, also not those in front of `second`.
  const void* before = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(second) - 32);
  return _mm512_or_si512(_mm512_maskz_loadu_epi16(low, first),
                         _mm512_maskz_loadu_epi16(static_cast<__mmask32>(high) << 16, before));
}

/// How operands are packed for tiles of kMaxRows rows. kInOrder: pairs are neighbours.
template <bool kInOrder, int64_t kMaxRows, int64_t kDepth>
struct Pairs {
  using Packed = uint16_t;
  static constexpr int64_t kRows = kMaxRows, kColumns = 2 * kLanes, kMaxDepth = kDepth;
  static constexpr int64_t kBlockTiles = 168 / kMaxRows, kGroup = kBf16Group, kFewRows = 256;
  static constexpr bool kReadsB = false, kTakesBf16 = true;
  static constexpr PairOrder kOrder = kInOrder ? in_order() : even_then_odd();

  // A tile of fewer rows may read, and then not use, what lies behind them.
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

  /// The 16 pairs of a row's `count` places from `from` on; behind them zeros.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline Vector row_of(
      const From* from, int64_t count) {
    const __m512i words =
        words_of(from, first_lanes(count), from + kLanes, first_lanes(count - kLanes));
    if constexpr (kInOrder) return reinterpret_cast<Vector>(words);
    const __m512i order = _mm512_loadu_si512(kOrder.place.data());
    return reinterpret_cast<Vector>(_mm512_permutexvar_epi16(order, words));
  }

  /// Pair p of up to 16 columns; places behind `count` are zeros.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline Vector column_of(
      const From* from, int64_t stride, int64_t p, int64_t count, __mmask16 lanes) {
    const int64_t lower = kOrder.place[static_cast<size_t>(2 * p)];
    const int64_t upper = kOrder.place[static_cast<size_t>(2 * p + 1)];
    const __mmask16 none = 0;
    const __m512i words = words_of(from + lower * stride, lower < count ? lanes : none,
                                   from + upper * stride, upper < count ? lanes : none);
    const __m512i turns = _mm512_loadu_si512(kByTurns.data());
    return reinterpret_cast<Vector>(_mm512_permutexvar_epi16(turns, words));
  }

  /// The 16 pairs of `columns` columns, of which it takes 16 at most.
  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] static inline void columns_of(
      const From* from, int64_t stride, int64_t count, int64_t columns, Vector* to) {
    if (count == kBf16Group && columns >= kLanes) {  // masks that the compiler drops
#pragma GCC unroll 16
      for (int64_t p = 0; p < kPairs; ++p)
        to[p] = column_of(from, stride, p, kBf16Group, static_cast<__mmask16>(0xffff));
    } else {
      for (int64_t p = 0; p < kPairs; ++p)
        to[p] = column_of(from, stride, p, count, first_lanes(columns));
    }
  }

  /// Has 32 places, which may lie behind the end, brought to the cache.
  template <class From>
  [[gnu::always_inline]] static inline void soon(const From* from) {
    _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_T0);
    if (sizeof(From) > 2) _mm_prefetch(reinterpret_cast<const char*>(from + kLanes), _MM_HINT_T0);
  }

  static float* words(Packed* to) { return reinterpret_cast<float*>(to); }

  template <class From>
  [[gnu::target("arch=x86-64-v4,avx512bf16")]] static void pack_a(const From* from, int64_t stride,
                                                                  bool by_rows, int64_t rows,
                                                                  int64_t depth, Packed* to) {
    for (int64_t k = 0; k < depth; k += kBf16Group, to += rows * kBf16Group) {
      const int64_t count = std::min(kBf16Group, depth - k);
      if (by_rows) {
        for (int64_t r = 0; r < rows; ++r) {
          const From* row = from + r * stride + k;
          soon(row + 2 * kBf16Group);
          store(words(to + r * kBf16Group), row_of(row, count));
        }
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
        if (lanes <= 0) continue;  // the tile of 16 columns does not read them
        Vector x[kLanes];
        if (by_rows) {
          columns_of(from + k * stride + j, stride, count, lanes, x);
        } else {
          for (int64_t i = 0; i < kLanes; ++i)
            x[i] = row_of(from + (j + std::min(i, lanes - 1)) * stride + k, count);
          transpose(x);
        }
        for (int64_t p = 0; p < kPairs; ++p) store(words(to) + p * kColumns + j, x[p]);
      }
  }
};

/// C (kRows x 16 kVectors) = or += A B.
template <int kRows, int kVectors>
[[gnu::target("arch=x86-64-v4,avx512bf16")]] void dot_tile(int64_t depth, const uint16_t* a,
                                                           const uint16_t* b, float* c, int64_t ldc,
                                                           bool add) {
  for (int64_t k = 0; k < depth;
       k += kBf16Group, a += kRows * kBf16Group, b += kColumns * kBf16Group, add = true) {
    __m512 sum[2][kRows][kVectors];  // even, odd
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[half][r][v] = _mm512_setzero_ps();
    for (int64_t p = 0; p < kPairs / 2; ++p)
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t pair = p + half * kPairs / 2;
        __m512bh row[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          row[v] = reinterpret_cast<__m512bh>(
              _mm512_loadu_si512(b + 2 * (pair * kColumns + v * kLanes)));
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          int both;
          std::memcpy(&both, a + r * kBf16Group + 2 * pair, sizeof both);
          const auto factor = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v)
            sum[half][r][v] = _mm512_dpbf16_ps(sum[half][r][v], factor, row[v]);
        }
      }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* to = c + r * ldc + v * kLanes;
        store(to, (add ? load(to) : Vector{}) + (sum[0][r][v] + sum[1][r][v]));
      }
  }
}

using DotTile = void (*)(int64_t, const uint16_t*, const uint16_t*, float*, int64_t, bool);
constexpr int kDotRows = 7;

template <int kVectors, int... kIndex>
constexpr std::array<DotTile, kDotRows> dot_tiles(std::integer_sequence<int, kIndex...>) {
  return {dot_tile<kIndex + 1, kVectors>...};
}

constexpr std::array<std::array<DotTile, kDotRows>, 2> kDotTiles = {
    dot_tiles<1>(std::make_integer_sequence<int, kDotRows>()),
    dot_tiles<2>(std::make_integer_sequence<int, kDotRows>())};

/// Runs run(c, ldc) on a copy of a piece of C of which a tile would write more than it has.
template <int64_t kRows, class Run>
void on_copy(int64_t rows, int64_t columns, float* c, int64_t ldc, bool add, Run run) {
  alignas(64) float whole[kRows * kColumns];
  for (int64_t r = 0; r < rows && add; ++r) std::copy_n(c + r * ldc, columns, whole + r * kColumns);
  run(whole, kColumns);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(whole + r * kColumns, columns, c + r * ldc);
}

struct DotPairs : Pairs</*kInOrder=*/false, kDotRows, 512> {
  using Scope = FlushScope;
  static int64_t first_row(int64_t m, int64_t tiles, int64_t t) { return part(m, tiles, t); }

  static void tile(int64_t rows, int64_t columns, int64_t depth, const uint16_t* a,
                   const uint16_t* b, int64_t, float* c, int64_t ldc, bool add) {
    const DotTile run = kDotTiles[columns > kLanes ? 1 : 0][static_cast<size_t>(rows - 1)];
    if (columns % kLanes == 0) return run(depth, a, b, c, ldc, add);
    on_copy<kDotRows>(rows, columns, c, ldc, add,
                      [&](float* to, int64_t ld) { run(depth, a, b, to, ld, add); });
  }
};

/// All eight tile registers with 16 rows of 64 bytes. In static memory: the intrinsics do not tell
/// compilers what they read.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTileConfig;

struct AmxScope {
  [[gnu::target("amx-tile")]] AmxScope() { _tile_loadconfig(&kTileConfig); }
  [[gnu::target("amx-tile")]] ~AmxScope() { _tile_release(); }
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;
};

/// C (16 kBands x 16 kStrips) = or += A B, where A has `rows` rows. Tile registers 0 to 3 hold C,
/// 4 and 5 A, 6 and 7 B.
template <int kBands, int kStrips>
[[gnu::target("amx-tile,amx-bf16,prfchw")]] void amx_tile(int64_t rows, int64_t depth,
                                                          const uint16_t* a, const uint16_t* b,
                                                          float* c, int64_t ldc, bool add) {
  constexpr int kBRow = kColumns * 4;
  const int64_t c_row = ldc * 4;
  // Rows of a new C are brought to the cache, a few at a step: they come from far.
  const int64_t at_once = ceil_div(16 * kBands * kBf16Group, depth);
  const float* coming = c;
  const float* const end = add ? c : c + 16 * kBands * ldc;
  float* lower = c + 16 * ldc;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // packing comes first
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (add) {
    _tile_loadd(0, c, c_row);
    if constexpr (kStrips == 2) _tile_loadd(1, c + 16, c_row);
    if constexpr (kBands == 2) _tile_loadd(2, lower, c_row);
    if constexpr (kBands * kStrips == 4) _tile_loadd(3, lower + 16, c_row);
  }
  for (int64_t k = 0; k < depth;
       k += kBf16Group, a += rows * kBf16Group, b += kColumns * kBf16Group) {
    for (int64_t i = 0; i < at_once && coming != end; ++i, coming += ldc) {
      __builtin_prefetch(coming, 1);
      if constexpr (kStrips == 2) __builtin_prefetch(coming + kLanes, 1);
    }
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, kBRow);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kBands == 2) {
      _tile_loadd(5, a + 16 * kBf16Group, 64);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kStrips == 2) {
      _tile_loadd(7, b + 2 * kLanes, kBRow);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kBands * kStrips == 4) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_row);
  if constexpr (kStrips == 2) _tile_stored(1, c + 16, c_row);
  if constexpr (kBands == 2) _tile_stored(2, lower, c_row);
  if constexpr (kBands * kStrips == 4) _tile_stored(3, lower + 16, c_row);
}

struct AmxPairs : Pairs</*kInOrder=*/true, 32, 512> {
  using Scope = AmxScope;
  static int64_t first_row(int64_t m, int64_t, int64_t t) { return std::min(m, t * kRows); }

  static void tile(int64_t rows, int64_t columns, int64_t depth, const uint16_t* a,
                   const uint16_t* b, int64_t, float* c, int64_t ldc, bool add) {
    const bool bands = rows > 16, strips = columns > kLanes;
    auto run = [&](float* to, int64_t ld) {
      (bands    ? strips ? amx_tile<2, 2> : amx_tile<2, 1>
          : strips ? amx_tile<1, 2>
                : amx_tile<1, 1>)(rows, depth, a, b, to, ld, add);
    };
    if (columns % kLanes == 0 && rows % 16 == 0) return run(c, ldc);
    on_copy<kRows>(rows, columns, c, ldc, add, run);
  }
};

/// Few rows times a matrix whose columns lie in memory one after the other (weights of a linear
/// layer): as C^T = B^T A^T, where B is packed as it lies.
constexpr int64_t kFewRows = 16;
void multiply_few_rows(const BlockedProduct& p) {
  Scratch<float> turned(p.n * p.m);
  float* t = turned.data();
  for (int64_t i = 0; i < p.m && p.add; ++i)
    for (int64_t j = 0; j < p.n; ++j) t[j * p.m + i] = p.c[i * p.ldc + j];
  multiply_alone<AmxPairs>(
      {p.n, p.m, p.k, p.b, p.a, t, {p.sb.col, p.sb.row}, {p.sa.col, p.sa.row}, p.m, p.add});
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] = t[j * p.m + i];
}

}  // namespace

void run_avx512_bf16(const Bf16Call& call) { call.run<DotPairs>(); }

void run_amx(const Bf16Call& call) {
  const BlockedProduct& p = call.product;
  if (!call.done && p.m <= kFewRows && p.n > p.m && p.sb.col != 1)
    multiply_few_rows(p);
  else
    call.run<AmxPairs>();
}

const Bf16Packing& packing_avx512_bf16() {
  static constexpr Bf16Packing kPacking = PackedKind<DotPairs>::packing();
  return kPacking;
}
const Bf16Packing& packing_amx() {
  static constexpr Bf16Packing kPacking = PackedKind<AmxPairs>::packing();
  return kPacking;
}

}  // namespace tern::kernels

#endif
