// f32 tiles of matrix products. A tile of C stays in registers. For each k the loop loads one row
// of B and multiplies it by each element of a column of A. Uses the compiler's vector type instead
// of a loop for simd(), since the tile must stay in registers. The registers of a vector unit
// determine the rows and columns of a tile. No element's sum depends on them.
#include "tern/core/kernels/products/gemm_tiles.h"

#include <algorithm>
#include <cstdint>

#include "tern/core/base/cpu.h"
#include "tern/core/kernels/products/gemm_blocks.h"
#include "tern/core/kernels/products/tile_table.h"
#include "tern/core/kernels/vectors.h"

namespace tern::kernels {
namespace {

/// sum += A B for `depth` places of k, each by a fused multiply-add (this file is compiled with
/// -ffp-contract=fast). A is stored column by column; rows of B are b_stride apart. Unrolled to two
/// places per iteration, since the loop counter's instructions would displace multiplications.
template <class V, int kRows, int kVectors>
[[gnu::always_inline]] inline void accumulate(int64_t depth, const float* a, const float* b,
                                              int64_t b_stride, V (&sum)[kRows][kVectors]) {
#pragma GCC unroll 2
  for (int64_t i = 0; i < depth; ++i, a += kRows, b += b_stride) {
    fetch_a(a);
    V row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) load(row[v], b + v * kLanesOf<V>);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r] * row[v];
  }
}

/// C (kRows x kVectors vectors) = or += A B. Prefetches C shortly before its use. If it were
/// earlier, A and B would push C out of the first cache again.
template <class V, int kRows, int kVectors>
[[gnu::always_inline]] inline void multiply_tile(int64_t depth, const float* a, const float* b,
                                                 int64_t b_stride, float* c, int64_t ldc,
                                                 bool add) {
  constexpr int64_t kSooner = 64;
  constexpr int kLanes = kLanesOf<V>;
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = V{};
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
      V before_it{};
      if (add) load(before_it, to);
      store(to, add ? before_it + sum[r][v] : sum[r][v]);
    }
}

// The largest product that is thin: packing it would take longer than the product.
constexpr int64_t kThinColumns = 8, kThinDepth = 16;

/// C = or += A B for at most kThinColumns and kThinDepth. Reads A in place, row by row. Each
/// element has the sum of a tile.
[[gnu::always_inline]] inline void multiply_thin(const Product<float>& p) {
  const bool add = p.beta != 0, runs_on = !add && p.ldc == p.n;
  const float *a = numbers(p.a.data), *b = numbers(p.b.data);
  alignas(32) float rows[kThinDepth][kThinColumns] = {};
  for (int64_t k = 0; k < p.k; ++k)
    for (int64_t j = 0; j < p.n; ++j) rows[k][j] = b[k * p.b.strides.row + j * p.b.strides.col];
  float* c = p.c;
  for (int64_t i = 0; i < p.m; ++i, a += p.a.strides.row, c += p.ldc) {
    Vector8 sum{};
    for (int64_t k = 0; k < p.k; ++k) {
      Vector8 row;
      load(row, rows[k]);
      sum += a[k * p.a.strides.col] * row;
    }
    if (runs_on && (p.m - i) * p.n >= kThinColumns) {
      store(c, sum);  // the next rows overwrite what is too much
      continue;
    }
    for (int64_t j = 0; j < p.n; ++j) c[j] = add ? c[j] + sum[j] : sum[j];
  }
}

/// `width` rows of A or columns of B, `depth` places of k: elements j < width of place i go to
/// to + i * to_stride.
struct Packing {
  const float* from;
  int64_t stride, width, depth;
  float* to;
  int64_t to_stride;
};

constexpr int64_t kPlacesAtOnce = 16;  // places of k that are packed together (Blocks::each_part)
constexpr int kLine = 16;              // numbers in a line of the caches

/// Prefetches from[further], which is packed next and may lie beyond the end. Operands are read
/// once, in many short rows. Without prefetches, packing waits for memory half of its time.
[[gnu::always_inline]] inline void soon(const float* from, int64_t further) {
  __builtin_prefetch(reinterpret_cast<const void*>(
      reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(further) * sizeof(float)));
}

/// to[i * to_stride + j] = from[j * stride + i] for j < width <= the vector's lanes and i < depth.
/// Writes a whole vector for every i; the next i may overwrite the later elements.
template <class V>
[[gnu::always_inline]] inline void pack_transposed(Packing p) {
  constexpr int kLanes = kLanesOf<V>;
  const float* rows[kLanes];
  for (int j = 0; j < kLanes; ++j) rows[j] = p.from + std::min<int64_t>(j, p.width - 1) * p.stride;
  int64_t i = 0;
  for (; i + kLanes <= p.depth; i += kLanes) {
    V x[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) load(x[j], rows[j] + i);
    if (i % kLine == 0)
      for (int64_t j = 0; j < p.width; ++j) soon(rows[j] + i, p.width * p.stride);
    transpose(x);
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) store(p.to + (i + j) * p.to_stride, x[j]);
  }
  for (; i < p.depth; ++i)
    for (int64_t j = 0; j < kLanes; ++j) p.to[i * p.to_stride + j] = rows[j][i];
}

/// to[i * to_stride + j] = from[i * stride + j] for j < to_width. Writes nothing after the last
/// row, where the next tile may be stored already.
template <class V>
[[gnu::always_inline]] inline void pack_straight(Packing p, int64_t to_width) {
  constexpr int kLanes = kLanesOf<V>;
  // Writes whole vectors as long as they end before the last element of the last row.
  const int64_t end = (p.depth - 1) * p.stride + p.width;
  const int64_t to_end = (p.depth - 1) * p.to_stride + to_width;
  const float* from = p.from;
  float* to = p.to;
  int64_t i = 0;
  for (; i < p.depth && i * p.stride + kLanes <= end && i * p.to_stride + kLanes <= to_end; ++i) {
    V x;
    load(x, from);
    store(to, x);
    soon(from, kPlacesAtOnce * p.stride);
    from += p.stride;
    to += p.to_stride;
  }
  for (; i < p.depth; ++i, from += p.stride, to += p.to_stride)
    for (int64_t j = 0; j < to_width; ++j) to[j] = from[std::min(j, p.width - 1)];
}

/// The same for a strip of B with all its columns, whose rows of kVectors vectors are stored one
/// after the other. Reads nothing beyond a row.
template <class V, int kVectors>
[[gnu::always_inline]] inline void pack_whole(Packing p) {
  constexpr int kLanes = kLanesOf<V>;
  for (int64_t i = 0; i < p.depth; ++i) {
    const float* from = p.from + i * p.stride;
    for (int v = 0; v < kVectors; ++v) {
      V x;
      load(x, from + v * kLanes);
      store(p.to + (i * kVectors + v) * kLanes, x);
    }
    for (int j = 0; j < kVectors * kLanes; j += kLine) soon(from + j, kPlacesAtOnce * p.stride);
  }
}

// The vector units. Each has the size of a tile that fills its registers, and compiles the code
// above.
#if defined(__x86_64__)
struct Avx512 {
  using V = Vector16;
  static constexpr int kRows = 14, kVectors = 2;
  template <int kTileRows, int kTileVectors>
  [[gnu::target("arch=x86-64-v4,prfchw")]] static void tile(int64_t depth, const float* a,
                                                            const float* b, int64_t b_stride,
                                                            float* c, int64_t ldc, bool add) {
    multiply_tile<V, kTileRows, kTileVectors>(depth, a, b, b_stride, c, ldc, add);
  }
  [[gnu::target("arch=x86-64-v4")]] static void thin(const Product<float>& p) { multiply_thin(p); }
  [[gnu::target("arch=x86-64-v4")]] static void transposed(const Packing& p) {
    pack_transposed<V>(p);
  }
  [[gnu::target("arch=x86-64-v4")]] static void straight(const Packing& p, int64_t to_width) {
    pack_straight<V>(p, to_width);
  }
  [[gnu::target("arch=x86-64-v4")]] static void whole(const Packing& p) {
    pack_whole<V, kVectors>(p);
  }
};

struct Avx2 {
  using V = Vector8;
  static constexpr int kRows = 6, kVectors = 2;
  template <int kTileRows, int kTileVectors>
  [[gnu::target("arch=x86-64-v3,prfchw")]] static void tile(int64_t depth, const float* a,
                                                            const float* b, int64_t b_stride,
                                                            float* c, int64_t ldc, bool add) {
    multiply_tile<V, kTileRows, kTileVectors>(depth, a, b, b_stride, c, ldc, add);
  }
  [[gnu::target("arch=x86-64-v3")]] static void thin(const Product<float>& p) { multiply_thin(p); }
  [[gnu::target("arch=x86-64-v3")]] static void transposed(const Packing& p) {
    pack_transposed<V>(p);
  }
  [[gnu::target("arch=x86-64-v3")]] static void straight(const Packing& p, int64_t to_width) {
    pack_straight<V>(p, to_width);
  }
  [[gnu::target("arch=x86-64-v3")]] static void whole(const Packing& p) {
    pack_whole<V, kVectors>(p);
  }
};
#else
/// The unit for NEON, which has 32 registers.
struct Baseline {
  using V = Vector4;
  static constexpr int kRows = 12, kVectors = 2;
  template <int kTileRows, int kTileVectors>
  static void tile(int64_t depth, const float* a, const float* b, int64_t b_stride, float* c,
                   int64_t ldc, bool add) {
    multiply_tile<V, kTileRows, kTileVectors>(depth, a, b, b_stride, c, ldc, add);
  }
  static void thin(const Product<float>& p) { multiply_thin(p); }
  static void transposed(const Packing& p) { pack_transposed<V>(p); }
  static void straight(const Packing& p, int64_t to_width) { pack_straight<V>(p, to_width); }
  static void whole(const Packing& p) { pack_whole<V, kVectors>(p); }
};
#endif

using Tile = void (*)(int64_t, const float*, const float*, int64_t, float*, int64_t, bool);

template <class Unit>
constexpr std::array kTiles = {
    tile_table<Unit::kRows>([](auto rows) { return Unit::template tile<rows, 1>; }),
    tile_table<Unit::kRows>([](auto rows) { return Unit::template tile<rows, 2>; })};

template <class Unit>
struct Float32 {
  using Packed = float;
  static constexpr int64_t kLanes = kLanesOf<typename Unit::V>;
  static constexpr int64_t kRows = Unit::kRows, kColumns = Unit::kVectors * kLanes;
  static constexpr int64_t kMaxDepth = 512;  // places of k per pass over C
  static constexpr int64_t kBlockTiles = 168 / kRows, kGroup = kPlacesAtOnce, kFewRows = 512;
  static constexpr bool kReadsB = true, kTakesBf16 = false;
  static constexpr WordOrder kWords = WordOrder::none;
  static constexpr int64_t kPadding = 1, kSlack = kLanes;
  struct Scope {};

  static int64_t room_a(int64_t tiles, int64_t depth) { return tiles * kRows * depth + kLanes; }
  static int64_t room_b(int64_t depth) { return kColumns * depth; }
  static int64_t size_a(int64_t rows, int64_t depth) { return rows * depth; }
  static int64_t first_row(int64_t m, int64_t tiles, int64_t t) { return part(m, tiles, t); }
  static int64_t first_depth(int64_t k, int64_t depths, int64_t d) { return part(k, depths, d); }

  /// Packs the last rows first: their vectors may reach into the first rows of the next place.
  static void pack_a(const float* from, int64_t stride, bool by_rows, int64_t rows, int64_t depth,
                     float* to) {
    for (int64_t r = (rows - 1) / kLanes * kLanes; r >= 0; r -= kLanes) {
      const int64_t width = std::min(kLanes, rows - r);
      if (by_rows)
        Unit::transposed({from + r * stride, stride, width, depth, to + r, rows});
      else
        Unit::straight({from + r, stride, width, depth, to + r, rows}, width);
    }
  }

  static void pack_b(const float* from, int64_t stride, bool by_rows, int64_t columns,
                     int64_t depth, float* to) {
    if (by_rows && columns == kColumns)
      return Unit::whole({from, stride, columns, depth, to, kColumns});
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t width = std::min(kLanes, columns - j);
      if (by_rows)
        Unit::straight({from + j, stride, width, depth, to + j, kColumns}, kLanes);
      else
        Unit::transposed({from + j * stride, stride, width, depth, to + j, kColumns});
    }
  }

  static void tile(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                   int64_t b_stride, float* c, int64_t ldc, bool add) {
    const Tile run = kTiles<Unit>[columns > kLanes ? 1 : 0][static_cast<size_t>(rows - 1)];
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

/// Blocks of k have maximal length, so that sums over the first rows of B have the same blocks as
/// sums over all rows.
template <class Unit>
struct Shared : Float32<Unit> {
  static int64_t first_depth(int64_t k, int64_t, int64_t d) {
    return std::min(k, d * Float32<Unit>::kMaxDepth);
  }
};

/// The blocks of only B, for any number of rows of A.
template <class Unit>
Blocks<Shared<Unit>> blocks_of(const Matrix<float>& b, int64_t rows, int64_t columns) {
  return Blocks<Shared<Unit>>({.n = columns, .k = rows, .b = b});
}

/// B packed by blocks of k, and in each block by strips.
template <class Unit>
SharedB<Shared<Unit>> packed_in(const PackedTiles& b) {
  const Blocks<Shared<Unit>> all = blocks_of<Unit>({}, b.rows, b.columns);
  return {0, all.strips(), 0, all.depths(), all.room_b(), all.strips() * all.room_b(), b.data};
}

/// Calls fn with the vector unit of the vector level in use.
template <class Fn>
decltype(auto) with_unit(Fn fn) {
#if defined(__x86_64__)
  return tern::detail::vector_level == VectorLevel::kAvx512 ? fn(Avx512()) : fn(Avx2());
#else
  return fn(Baseline());
#endif
}

}  // namespace

void multiply_tiles(const Product<float>& p) {
  const bool thin = !p.conv && p.n <= kThinColumns && p.k <= kThinDepth;
  with_unit([&]<class Unit>(Unit) {
    thin ? Unit::thin(scaled(p)) : multiply_alone<Float32<Unit>>(scaled(p));
  });
}

void multiply_tiles_together(const Product<float>& p, const PanelDone& done) {
  with_unit([&]<class Unit>(Unit) { multiply_together<Float32<Unit>>(scaled(p), done); });
}

const TileSet& f32_tiles() {
  return with_unit([]<class Unit>(Unit) -> const TileSet& { return tile_set<Float32<Unit>>(); });
}

int64_t PackedTiles::size(int64_t rows, int64_t columns) {
  return with_unit([&]<class Unit>(Unit) {
    const auto packed = packed_in<Unit>({rows, columns, nullptr});
    return packed.depths * packed.step;
  });
}

void pack_tiles(const Matrix<float>& b, const PackedTiles& to) {
  with_unit([&]<class Unit>(Unit) {
    const auto packed = packed_in<Unit>(to);
    const auto all = blocks_of<Unit>(b, to.rows, to.columns);
    for (int64_t d = 0; d < packed.depths; ++d) all.pack_b(0, packed.strips, d, packed.strip(0, d));
  });
}

void multiply_packed_tiles(const Product<float>& product, const PackedTiles& b) {
  with_unit([&]<class Unit>(Unit) {
    using Kind = Shared<Unit>;
    const Blocks<Kind> p(scaled(product));
    auto packed = packed_in<Unit>(b);
    packed.depths = p.depths();
    for (int64_t first = 0; first < p.tiles(); first += Kind::kBlockTiles)
      multiply_panel(p, {first, std::min(p.tiles(), first + Kind::kBlockTiles)}, {0, p.strips()},
                     packed);
  });
}

}  // namespace tern::kernels
