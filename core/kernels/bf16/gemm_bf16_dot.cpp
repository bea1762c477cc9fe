// Tiles of bf16 products by AVX512_BF16. VDPBF16PS adds both halves of a pair to one sum, the upper
// half first. Even and odd k are summed separately (base/precision.h). So the first eight pairs
// hold (k + 2, k) for even k, and the other eight for odd k.
#include "tern/core/kernels/bf16/gemm_bf16_ways.h"

#if defined(__x86_64__)

#include <cstring>

#include "tern/core/kernels/bf16/gemm_bf16_pairs.h"
#include "tern/core/kernels/products/tile_table.h"

namespace tern::kernels {
namespace {

using namespace bf16;

/// C (kRows x 16 kVectors) = or += A B, group by group.
template <int kRows, int kVectors>
[[gnu::target("arch=x86-64-v4,avx512bf16"), gnu::always_inline]] inline void dot_groups(
    int64_t depth, const uint16_t* a, const uint16_t* b, float* c, int64_t ldc, bool add) {
  for (int64_t k = 0; k < depth;
       k += kBf16Group, a += kRows * kBf16Group, b += kColumns * kBf16Group, add = true) {
    if constexpr (kRows > kMemoryBound)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) fetch_a(a + r * kBf16Group);
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
        for (int v = 0; v < kVectors; ++v) {
          const uint16_t* from = b + 2 * (pair * kColumns + v * kLanes);
          row[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
          if constexpr (kRows <= kMemoryBound) fetch_ahead(from);
        }
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

/// The same for rows of C that may be so far apart that the first cache does not hold them beside A
/// and B. With many groups, the sums stay in contiguous memory until the end.
template <int kRows, int kVectors>
[[gnu::target("arch=x86-64-v4,avx512bf16,prfchw")]] void dot_tile(int64_t depth, const uint16_t* a,
                                                                  const uint16_t* b, float* c,
                                                                  int64_t ldc, bool add) {
  constexpr int64_t kFewGroups = 6, kWide = kVectors * kLanes;
  const bool apart = depth > kFewGroups * kBf16Group;
  alignas(64) float sums[kRows * kWide];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* from = c + r * ldc + v * kLanes;
      __builtin_prefetch(from, 1);
      if (apart) store(sums + r * kWide + v * kLanes, add ? load(from) : Vector{});
    }
  if (!apart) return dot_groups<kRows, kVectors>(depth, a, b, c, ldc, add);
  dot_groups<kRows, kVectors>(depth, a, b, sums, kWide, true);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      store(c + r * ldc + v * kLanes, load(sums + r * kWide + v * kLanes));
}

using DotTile = void (*)(int64_t, const uint16_t*, const uint16_t*, float*, int64_t, bool);
constexpr int kDotRows = 7;

constexpr std::array kDotTiles = {
    tile_table<kDotRows>([](auto rows) { return dot_tile<rows, 1>; }),
    tile_table<kDotRows>([](auto rows) { return dot_tile<rows, 2>; })};

struct DotPairs : Pairs</*kInOrder=*/false, kDotRows, 1024, /*kLooksAhead=*/true> {
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

}  // namespace

const Bf16Kernels& bf16_avx512_bf16() { return bf16_kernels_of<DotPairs>(); }

}  // namespace tern::kernels

#endif
