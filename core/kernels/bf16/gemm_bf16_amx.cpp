// Tiles of bf16 products by AMX. TDPBF16PS sums the lower halves of pairs (even k) and the upper
// halves (odd k) separately, so the numbers of a pair are neighbours.
#include "tern/core/kernels/bf16/gemm_bf16_ways.h"

#if defined(__x86_64__)

#include <atomic>

#include "tern/core/kernels/bf16/gemm_bf16_pairs.h"

namespace tern::kernels {
namespace {

using namespace bf16;

/// Configures all eight tile registers with 16 rows of 64 bytes. In static memory, since the
/// intrinsics do not tell compilers that they read it.
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
  // Prefetches rows of a new C, a few per step, since they are not in the near caches.
  const int64_t at_once = ceil_div(16 * kBands * kBf16Group, depth);
  const float* coming = c;
  const float* const end = add ? c : c + 16 * kBands * ldc;
  float* lower = c + 16 * ldc;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // packing must be finished
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

using AmxTile = void (*)(int64_t, int64_t, const uint16_t*, const uint16_t*, float*, int64_t, bool);
/// Indexed by [bands of 16 rows - 1][strips of 16 columns - 1].
constexpr AmxTile kAmxTiles[2][2] = {{amx_tile<1, 1>, amx_tile<1, 2>},
                                     {amx_tile<2, 1>, amx_tile<2, 2>}};

struct AmxPairs : Pairs</*kInOrder=*/true, 32, 512, /*kLooksAhead=*/false> {
  using Scope = AmxScope;
  static int64_t first_row(int64_t m, int64_t, int64_t t) { return std::min(m, t * kRows); }

  static void tile(int64_t rows, int64_t columns, int64_t depth, const uint16_t* a,
                   const uint16_t* b, int64_t, float* c, int64_t ldc, bool add) {
    const AmxTile tile = kAmxTiles[rows > 16 ? 1 : 0][columns > kLanes ? 1 : 0];
    auto run = [&](float* to, int64_t ld) { tile(rows, depth, a, b, to, ld, add); };
    if (columns % kLanes == 0 && rows % 16 == 0) return run(c, ldc);
    on_copy<kRows>(rows, columns, c, ldc, add, run);
  }
};

/// Computes C^T = B^T A^T.
void multiply_turned(const Product<float>& p) {
  Scratch<float> turned(p.n * p.m);
  float* t = turned.data();
  for (int64_t i = 0; i < p.m && p.beta != 0; ++i)
    for (int64_t j = 0; j < p.n; ++j) t[j * p.m + i] = p.c[i * p.ldc + j];
  multiply_alone<AmxPairs>({.m = p.n,
                            .n = p.m,
                            .k = p.k,
                            .a = p.b.transposed(),
                            .b = p.a.transposed(),
                            .c = t,
                            .ldc = p.m,
                            .beta = p.beta});
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] = t[j * p.m + i];
}

void run_amx(const Product<float>& p, const PanelDone* done) {
  if (!done && is_turned_by_amx(p))
    multiply_turned(p);
  else
    multiply_blocks<AmxPairs>(p, done);
}

}  // namespace

const Bf16Kernels& bf16_amx() { return bf16_kernels_of<AmxPairs, run_amx>(); }

}  // namespace tern::kernels

#endif
