// A tile of up to 14 x 32 elements of C stays in 28 of the 32 registers. For each k the loop loads
// one row of B and multiplies it by each element of a column of A. Uses the compiler's vector type
// instead of a loop for simd(), since the tile must stay in registers.
#include "tern/core/kernels/gemm_tiles.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tern/core/base/cpu.h"
#include "tern/core/kernels/gemm_blocks.h"
#include "tern/core/kernels/vector16.h"

namespace tern::kernels {

#if defined(__x86_64__)
namespace {

constexpr int kMaxRows = 14;  // per tile

/// sum += A B for `depth` places of k. A is stored column by column; a row of B starts every
/// b_stride. Two places per iteration: the loop counter's instructions would displace
/// multiplications.
template <int kRows, int kVectors>
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void accumulate(
    int64_t depth, const float* a, const float* b, int64_t b_stride,
    Vector (&sum)[kRows][kVectors]) {
#pragma GCC unroll 2
  for (int64_t i = 0; i < depth; ++i, a += kRows, b += b_stride) {
    Vector row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r] * row[v];
  }
}

/// C (kRows x 16 kVectors) = or += A B. Prefetches C shortly before its use: earlier, A and B would
/// push it out of the first cache again.
template <int kRows, int kVectors>
[[gnu::target("arch=x86-64-v4,prfchw")]] void tile(int64_t depth, const float* a, const float* b,
                                                   int64_t b_stride, float* c, int64_t ldc,
                                                   bool add) {
  constexpr int64_t kSooner = 64;
  Vector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vector{};
  const int64_t before = std::max<int64_t>(depth - kSooner, 0);
  accumulate(before, a, b, b_stride, sum);
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + r * ldc + v * kLanes, 1);
  accumulate(depth - before, a + before * kRows, b + before * b_stride, b_stride, sum);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * ldc + v * kLanes;
      store(to, add ? load(to) + sum[r][v] : sum[r][v]);
    }
}

using Tile = void (*)(int64_t, const float*, const float*, int64_t, float*, int64_t, bool);

template <int kVectors, int... kIndex>
constexpr std::array<Tile, kMaxRows> tiles(std::integer_sequence<int, kIndex...>) {
  return {tile<kIndex + 1, kVectors>...};
}

constexpr std::array<std::array<Tile, kMaxRows>, 2> kTiles = {
    tiles<1>(std::make_integer_sequence<int, kMaxRows>()),
    tiles<2>(std::make_integer_sequence<int, kMaxRows>())};

/// to[i * to_stride + j] = from[j * stride + i] for j < width <= 16 and i < depth. Writes 16
/// elements for every i; the next i may overwrite the later ones.
[[gnu::target("arch=x86-64-v4")]] void pack_transposed(const float* from, int64_t stride,
                                                       int64_t width, int64_t depth, float* to,
                                                       int64_t to_stride) {
  int64_t i = 0;
  for (; i + kLanes <= depth; i += kLanes) {
    Vector x[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j)
      x[j] = load(from + std::min<int64_t>(j, width - 1) * stride + i);
    transpose(x);
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) store(to + (i + j) * to_stride, x[j]);
  }
  for (; i < depth; ++i)
    for (int64_t j = 0; j < kLanes; ++j)
      to[i * to_stride + j] = from[std::min(j, width - 1) * stride + i];
}

/// to[i * to_stride + j] = from[i * stride + j], as above. Writes nothing after the last row, where
/// the next tile may be stored already.
[[gnu::target("arch=x86-64-v4")]] void pack_straight(const float* from, int64_t stride,
                                                     int64_t width, int64_t depth, float* to,
                                                     int64_t to_stride) {
  // Writes whole vectors as long as they end before the last element of the last row.
  const int64_t to_width = std::min<int64_t>(to_stride, kLanes);
  const int64_t end = (depth - 1) * stride + width, to_end = (depth - 1) * to_stride + to_width;
  int64_t i = 0;
  for (; i < depth && i * stride + kLanes <= end && i * to_stride + kLanes <= to_end; ++i)
    store(to + i * to_stride, load(from + i * stride));
  for (; i < depth; ++i)
    for (int64_t j = 0; j < to_width; ++j)
      to[i * to_stride + j] = from[i * stride + std::min(j, width - 1)];
}

struct Float32 {
  using Packed = float;
  static constexpr int64_t kRows = kMaxRows, kColumns = 2 * kLanes;
  static constexpr int64_t kMaxDepth = 512;  // C is read and written once per so many places of k
  static constexpr int64_t kBlockTiles = 12, kGroup = 16, kFewRows = 512;
  static constexpr bool kReadsB = true, kTakesBf16 = false;
  struct Scope {};

  static int64_t room_a(int64_t tiles, int64_t depth) { return tiles * kRows * depth + kLanes; }
  static int64_t room_b(int64_t depth) { return kColumns * depth; }
  static int64_t size_a(int64_t rows, int64_t depth) { return rows * depth; }
  static int64_t first_row(int64_t m, int64_t tiles, int64_t t) { return part(m, tiles, t); }
  static int64_t first_depth(int64_t k, int64_t depths, int64_t d) { return part(k, depths, d); }

  static void pack_a(const float* from, int64_t stride, bool by_rows, int64_t rows, int64_t depth,
                     float* to) {
    (by_rows ? pack_transposed : pack_straight)(from, stride, rows, depth, to, rows);
  }

  static void pack_b(const float* from, int64_t stride, bool by_rows, int64_t columns,
                     int64_t depth, float* to) {
    for (int64_t j = 0; j < columns; j += kLanes)
      (by_rows ? pack_straight : pack_transposed)(from + (by_rows ? j : j * stride), stride,
                                                  std::min<int64_t>(kLanes, columns - j), depth,
                                                  to + j, kColumns);
  }

  static void tile(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                   int64_t b_stride, float* c, int64_t ldc, bool add) {
    const Tile run = kTiles[columns > kLanes ? 1 : 0][static_cast<size_t>(rows - 1)];
    if (columns % kLanes == 0) return run(depth, a, b, b_stride, c, ldc, add);
    alignas(64) float whole[kRows * kColumns];
    run(depth, a, b, b_stride, whole, kColumns, false);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < columns; ++j) {
        const float v = whole[r * kColumns + j];
        c[r * ldc + j] = add ? c[r * ldc + j] + v : v;
      }
  }
};

}  // namespace

bool tiles_available() { return tern::detail::vector_level == VectorLevel::kAvx512; }

void multiply_tiles(const Product<float>& p) { multiply_alone<Float32>(scaled(p)); }

void multiply_tiles_together(const Product<float>& p, const PanelDone& done) {
  multiply_together<Float32>(scaled(p), done);
}

namespace {

/// Blocks of k of maximal length: sums over some of the rows begin like those over all.
struct Shared : Float32 {
  static int64_t first_depth(int64_t k, int64_t, int64_t d) { return std::min(k, d * kMaxDepth); }
};

/// The blocks of B alone, for any number of rows.
Blocks<Shared> blocks_of(const Matrix<float>& b, int64_t rows, int64_t columns) {
  return Blocks<Shared>({.n = columns, .k = rows, .b = b});
}

/// Packs block of k after block of k, and in each strip after strip.
SharedB<Shared> packed_in(const PackedTiles& b) {
  const Blocks<Shared> all = blocks_of({}, b.rows, b.columns);
  return {0, all.strips(), 0, all.depths(), all.room_b(), all.strips() * all.room_b(), b.data};
}

}  // namespace

int64_t PackedTiles::size(int64_t rows, int64_t columns) {
  const SharedB<Shared> packed = packed_in({rows, columns, nullptr});
  return packed.depths * packed.step;
}

void pack_tiles(const Matrix<float>& b, const PackedTiles& to) {
  const SharedB<Shared> packed = packed_in(to);
  const Blocks<Shared> all = blocks_of(b, to.rows, to.columns);
  for (int64_t d = 0; d < packed.depths; ++d) all.pack_b(0, packed.strips, d, packed.strip(0, d));
}

void multiply_packed_tiles(const Product<float>& product, const PackedTiles& b) {
  const Blocks<Shared> p(scaled(product));
  SharedB<Shared> packed = packed_in(b);
  packed.depths = p.depths();
  for (int64_t first = 0; first < p.tiles(); first += Shared::kBlockTiles)
    multiply_panel(p, {first, std::min(p.tiles(), first + Shared::kBlockTiles)}, {0, p.strips()},
                   packed);
}

#else

bool tiles_available() { return false; }

int64_t PackedTiles::size(int64_t, int64_t) { return 0; }

void pack_tiles(const Matrix<float>&, const PackedTiles&) {}

void multiply_packed_tiles(const Product<float>&, const PackedTiles&) {}

void multiply_tiles(const Product<float>&) {}

void multiply_tiles_together(const Product<float>&, const PanelDone&) {}

#endif

}  // namespace tern::kernels
