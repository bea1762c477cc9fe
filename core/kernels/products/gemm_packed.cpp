// f32 products with packed weights: tiles for each vector unit, which keep one sum per output in
// registers and end rows with bias, ReLU and residual.
#include "tern/core/kernels/products/gemm_packed.h"

#include "tern/core/base/cpu.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/products/tile_table.h"
#include "tern/core/kernels/vectors.h"

namespace tern::kernels {
namespace {

/// The inputs and outputs of one tile.
struct Piece {
  int64_t k;
  const float* x;
  int64_t x_stride;
  const float* strip;  ///< (k, 32)
  float* y;
  int64_t y_stride;
  StripEnd end;
};

/// Computes y (kRows, kVectors * lanes) for the outputs from `column` on, with one sum per lane.
template <int kRows, int kVectors, class V>
[[gnu::always_inline]] inline void tile(const Piece& p, int64_t column) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(float);
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = V{};
  const float* b = p.strip + column;
  for (int64_t i = 0; i < p.k; ++i, b += kStrip) {
    V row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      load(row[v], b + v * kLanes);
      if constexpr (kRows <= kMemoryBound) fetch_ahead(b + v * kLanes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += p.x[r * p.x_stride + i] * row[v];
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = column + v * kLanes;
    V bias;
    load(bias, p.end.bias + at);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      V y = sum[r][v] + bias;
      if (p.end.relu) y = y < 0 ? V{} : y;  // keeps NaN
      if (p.end.residual) {
        V more;
        load(more, p.end.residual + r * p.end.residual_stride + at);
        y += more;
      }
      __builtin_memcpy(p.y + r * p.y_stride + at, &y, sizeof(V));
    }
  }
}

using Tile = void (*)(const Piece&);

/// A vector unit's tiles of 1, 2, ... rows for a whole strip.
struct Unit {
  const Tile* tiles;
  int64_t max_rows;
};

template <int kRows>
void tile_baseline(const Piece& p) {
  for (int64_t c = 0; c < kStrip; c += 8) tile<kRows, 2, Vector4>(p, c);
}
#if defined(__x86_64__)
template <int kRows>
[[gnu::target("arch=x86-64-v3")]] void tile_avx2(const Piece& p) {
  for (int64_t c = 0; c < kStrip; c += 16) tile<kRows, 2, Vector8>(p, c);
}
template <int kRows>
[[gnu::target("arch=x86-64-v4")]] void tile_avx512(const Piece& p) {
  tile<kRows, 2, Vector16>(p, 0);
}

constexpr auto kAvx2Tiles = tile_table<6>([](auto rows) { return tile_avx2<rows>; });
constexpr auto kAvx512Tiles = tile_table<12>([](auto rows) { return tile_avx512<rows>; });
#endif
constexpr auto kBaselineTiles = tile_table<4>([](auto rows) { return tile_baseline<rows>; });

Unit unit() {
#if defined(__x86_64__)
  if (tern::detail::vector_level == VectorLevel::kAvx512) return {kAvx512Tiles.data(), 12};
  if (tern::detail::vector_level == VectorLevel::kAvx2) return {kAvx2Tiles.data(), 6};
#endif
  return {kBaselineTiles.data(), 4};
}

/// For a strip with fewer than 32 outputs: computes a whole strip elsewhere and copies `width`
/// outputs.
void run_narrow(Tile run, Piece p, int64_t rows, int64_t width) {
  alignas(64) float whole[12 * kStrip];
  float* y = std::exchange(p.y, whole);
  const int64_t stride = std::exchange(p.y_stride, kStrip);
  const float* residual = std::exchange(p.end.residual, nullptr);
  run(p);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < width; ++j) {
      const float more = residual ? residual[r * p.end.residual_stride + j] : 0;
      y[r * stride + j] = residual ? whole[r * kStrip + j] + more : whole[r * kStrip + j];
    }
}

}  // namespace

void pack_strips(const float* w, int64_t n, int64_t k, float* packed) {
  for (int64_t s = 0; s < strips_of(n); ++s)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < kStrip; ++j, ++packed)
        *packed = s * kStrip + j < n ? w[(s * kStrip + j) * k + i] : 0;
}

void multiply_some(const float* x, const float* w, int64_t k, const float* bias,
                   const int64_t* list, int64_t count, float* y) {
  simd([=] {
    for (int64_t c = 0; c < count; ++c) {
      const float* row = w + list[c] * k;
      y[c] = lane_sum<float>(k, [x, row](int64_t i) { return x[i] * row[i]; }) + bias[list[c]];
    }
  });
}

void multiply_strips(const StripRange& range, const float* x, int64_t x_stride, const float* packed,
                     float* y, int64_t y_stride, const StripEnd& end) {
  const Unit unit = kernels::unit();
  const int64_t tiles = ceil_div(range.rows, unit.max_rows);
  const int64_t first = range.part.first(tiles), last = range.part.last(tiles);
  for (int64_t s = range.first; s < range.last; ++s)
    for (int64_t t = first; t < last; ++t) {
      const int64_t row = range.rows * t / tiles, rows = range.rows * (t + 1) / tiles - row;
      const int64_t column = (s - range.first) * kStrip;
      Piece p{range.k,
              x + row * x_stride,
              x_stride,
              packed + s * kStrip * range.k,
              y + row * y_stride + column,
              y_stride,
              end};
      p.end.bias += s * kStrip;
      if (end.residual) p.end.residual += row * end.residual_stride + column;
      if (s + 1 < range.last && range.rows > kMemoryBound)
        fetch_piece(packed + (s + 1) * kStrip * range.k, kStrip * range.k * int64_t{sizeof(float)},
                    t - first, last - first);
      const Tile run = unit.tiles[rows - 1];
      if (range.width(s) == kStrip)
        run(p);
      else
        run_narrow(run, p, rows, range.width(s));
    }
}

}  // namespace tern::kernels
