// After Goto & van de Geijn (2008), "Anatomy of high-performance matrix multiplication": blocks of
// A and B are copied to where the innermost loop reads them without gaps. That loop keeps a tile of
// up to 14 x 32 elements of C in 28 of the 32 registers; for each k it loads one row of B and
// multiplies it by each element of a column of A. Written with the compiler's vector type and not
// as a loop for simd(), since the tile has to stay in registers.
#include "tern/core/kernels/gemm_tiles.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tern/core/base/cpu.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

#if defined(__x86_64__)
namespace {

/// 16 floats in one register.
typedef float Vector __attribute__((vector_size(64)));
constexpr int kLanes = 16;
constexpr int kMaxRows = 14;              // of a tile
constexpr int64_t kColumns = 2 * kLanes;  // of a tile
constexpr int64_t kMaxDepth = 320;        // of a block: a strip of B stays in the first cache
constexpr int64_t kBlockTiles = 12;       // rows of tiles in a block of A: second cache
constexpr int64_t kSharedStrips = 64;     // of a shared B that are packed together,
constexpr int64_t kSharedBlocks = 128;    // and these times blocks of k: 5 MB

/// 16 floats at any address. A struct, as in the compilers' own headers: a vector type that is
/// itself aligned(4) keeps that only under its own name, not in references or template arguments.
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

/// C (kRows x 16 kVectors) = or += A B. A lies column by column; a row of B starts every b_stride.
template <int kRows, int kVectors>
[[gnu::target("arch=x86-64-v4")]] void tile(int64_t depth, const float* a, const float* b,
                                            int64_t b_stride, float* c, int64_t ldc, bool add) {
  Vector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Vector{};
  for (int64_t i = 0; i < depth; ++i, a += kRows, b += b_stride) {
    Vector row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r] * row[v];
  }
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

/// The elements of x and y by turns: the first 16 of them, and the rest.
template <size_t... kIndex>
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void zip(
    const Vector& x, const Vector& y, Vector& low, Vector& high, std::index_sequence<kIndex...>) {
  low = __builtin_shufflevector(x, y, static_cast<int>(kIndex / 2 + kIndex % 2 * kLanes)...);
  high = __builtin_shufflevector(
      x, y, static_cast<int>(kLanes / 2 + kIndex / 2 + kIndex % 2 * kLanes)...);
}

/// Transposes 16 x 16 elements: four rounds of zipping the upper half with the lower.
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void transpose(Vector* x) {
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    Vector y[kLanes];
#pragma GCC unroll 8
    for (int i = 0; i < kLanes / 2; ++i)
      zip(x[i], x[i + kLanes / 2], y[2 * i], y[2 * i + 1], std::make_index_sequence<kLanes>());
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
}

/// to[i * to_stride + j] = from[j * stride + i] for j < width <= 16 and i < depth. Writes 16
/// elements for every i, of which the later ones may be overwritten by the next i.
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

/// to[i * to_stride + j] = from[i * stride + j], as above.
[[gnu::target("arch=x86-64-v4")]] void pack_straight(const float* from, int64_t stride,
                                                     int64_t width, int64_t depth, float* to,
                                                     int64_t to_stride) {
  // Whole vectors as long as they end before the last element of the last row.
  const int64_t end = (depth - 1) * stride + width;
  int64_t i = 0;
  for (; i < depth && i * stride + kLanes <= end; ++i)
    store(to + i * to_stride, load(from + i * stride));
  for (; i < depth; ++i)
    for (int64_t j = 0; j < kLanes; ++j)
      to[i * to_stride + j] = from[i * stride + std::min(j, width - 1)];
}

/// A stretch of n cut into `parts`: where part i begins.
int64_t part(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One product, and the pieces that it is computed in: tiles of rows, strips of 32 columns, and
/// blocks of k.
struct Product {
  int64_t m, n, k;
  const float* a;
  const float* b;
  float* c;
  MatrixStrides sa, sb;
  int64_t ldc;
  bool add;  ///< to C

  int64_t tiles() const { return ceil_div(m, kMaxRows); }
  int64_t strips() const { return ceil_div(n, kColumns); }
  int64_t depths() const { return ceil_div(k, kMaxDepth); }
  int64_t row(int64_t tile) const { return part(m, tiles(), tile); }
  int64_t first(int64_t d) const { return part(k, depths(), d); }
  int64_t depth(int64_t d) const { return first(d + 1) - first(d); }
  int64_t width(int64_t strip) const { return std::min(kColumns, n - strip * kColumns); }
  const float* strip_of_b(int64_t strip, int64_t d) const {
    return b + first(d) * sb.row + strip * kColumns * sb.col;
  }

  /// Room for packing: A's rows of some tiles, and a strip of B, for one block of k.
  static int64_t room_a(int64_t tiles) { return tiles * kMaxRows * kMaxDepth + kLanes; }
  static constexpr int64_t kRoomB = kColumns * kMaxDepth;

  void pack_a(int64_t begin, int64_t end, int64_t d, float* to) const {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t rows = row(t + 1) - row(t);
      const float* from = a + row(t) * sa.row + first(d) * sa.col;
      if (sa.col == 1 || k == 1)
        pack_transposed(from, sa.row, rows, depth(d), to, rows);
      else
        pack_straight(from, sa.col, rows, depth(d), to, rows);
      to += rows * depth(d);
    }
  }

  void pack_b(int64_t strip, int64_t d, float* to) const {
    const float* from = strip_of_b(strip, d);
    for (int64_t j = 0; j < width(strip); j += kLanes) {
      const int64_t lanes = std::min<int64_t>(kLanes, width(strip) - j);
      if (sb.col == 1 || n == 1)
        pack_straight(from + j, sb.row, lanes, depth(d), to + j, kColumns);
      else
        pack_transposed(from + j * sb.col, sb.col, lanes, depth(d), to + j, kColumns);
    }
  }

  /// Tiles begin..end of one strip, for one block of k.
  void multiply(int64_t begin, int64_t end, int64_t strip, int64_t d, const float* packed_a,
                const float* strip_b, int64_t b_stride) const {
    const int64_t columns = width(strip);
    const auto& tile_of = kTiles[columns > kLanes ? 1 : 0];
    const bool sum = add || d > 0;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t rows = row(t + 1) - row(t);
      float* to = c + row(t) * ldc + strip * kColumns;
      const Tile run = tile_of[static_cast<size_t>(rows - 1)];
      if (columns % kLanes == 0) {
        run(depth(d), packed_a, strip_b, b_stride, to, ldc, sum);
      } else {
        alignas(64) float whole[kMaxRows * kColumns];
        run(depth(d), packed_a, strip_b, b_stride, whole, kColumns, false);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < columns; ++j) {
            const float v = whole[r * kColumns + j];
            to[r * ldc + j] = sum ? to[r * ldc + j] + v : v;
          }
      }
      packed_a += rows * depth(d);
    }
  }
};

void scale(const Product& p, float beta) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] *= beta;
}

/// In this thread.
void multiply_alone(const Product& p) {
  const int64_t blocks = ceil_div(p.tiles(), kBlockTiles);
  // B is read where it lies if packing it would cost more than it saves.
  const bool in_place =
      p.sb.col == 1 && (p.k == 1 || p.sb.row >= p.n) && (p.tiles() <= 2 || p.k <= 128);
  Scratch<float> packed_a(Product::room_a(ceil_div(p.tiles(), blocks)));
  Scratch<float> packed_b((in_place ? 1 : p.strips()) * Product::kRoomB);
  for (int64_t d = 0; d < p.depths(); ++d)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = part(p.tiles(), blocks, block);
      const int64_t end = part(p.tiles(), blocks, block + 1);
      p.pack_a(begin, end, d, packed_a.data());
      for (int64_t s = 0; s < p.strips(); ++s) {
        const bool here = in_place && p.width(s) == kColumns;
        float* packed = packed_b.data() + (in_place ? 0 : s * Product::kRoomB);
        if (!here && (block == 0 || in_place)) p.pack_b(s, d, packed);
        p.multiply(begin, end, s, d, packed_a.data(), here ? p.strip_of_b(s, d) : packed,
                   here ? p.sb.row : kColumns);
      }
    }
}

/// Panels of a product whose packed B is shared by all threads.
struct Panels {
  int64_t rows, columns;  ///< of panels, in tiles and strips
  explicit Panels(const Product& p) {
    constexpr int64_t kPanels = 8, kMinTiles = 4;
    rows = std::clamp<int64_t>(p.tiles() / kMinTiles, 1, kPanels);
    rows = std::max(rows, ceil_div(p.tiles(), kBlockTiles));
    columns = std::min(p.strips(), ceil_div(kPanels, rows));
  }
};

/// B packed for some strips and blocks of k.
struct SharedB {
  int64_t first_strip, strips, first_depth, depths;
  int64_t step;  ///< from one block of k to the next
  float* data;
  float* strip(int64_t s, int64_t d) const {
    return data + (d - first_depth) * step + (s - first_strip) * Product::kRoomB;
  }
};

using Range = std::pair<int64_t, int64_t>;

/// Some tiles of rows times some of the strips.
void multiply_panel(const Product& p, Range tiles, Range strips, const SharedB& b) {
  Scratch<float> packed_a(Product::room_a(tiles.second - tiles.first));
  for (int64_t d = b.first_depth; d < b.first_depth + b.depths; ++d) {
    p.pack_a(tiles.first, tiles.second, d, packed_a.data());
    for (int64_t s = strips.first; s < strips.second; ++s)
      p.multiply(tiles.first, tiles.second, s, d, packed_a.data(), b.strip(s, d), kColumns);
  }
}

}  // namespace

bool tiles_available() { return tern::detail::vector_level == VectorLevel::kAvx512; }

void multiply_tiles(int64_t m, int64_t n, int64_t k, const float* a, MatrixStrides sa,
                    const float* b, MatrixStrides sb, float beta, float* c, int64_t ldc) {
  const Product p{m, n, k, a, b, c, sa, sb, ldc, beta != 0};
  if (beta != 0 && beta != 1) scale(p, beta);
  multiply_alone(p);
}

void multiply_tiles_together(int64_t m, int64_t n, int64_t k, const float* a, MatrixStrides sa,
                             const float* b, MatrixStrides sb, float beta, float* c, int64_t ldc,
                             const PanelDone& done) {
  const Product p{m, n, k, a, b, c, sa, sb, ldc, beta != 0};
  if (beta != 0 && beta != 1) scale(p, beta);
  // B is packed a part at a time, of some strips and blocks of k, to bound the memory it takes.
  const int64_t most = std::min(p.strips(), kSharedStrips);
  const int64_t most_depths = std::clamp<int64_t>(kSharedBlocks / most, 1, p.depths());
  Scratch<float> packed_b(most * most_depths * Product::kRoomB);
  const Panels panels(p);
  for (int64_t s = 0; s < p.strips(); s += most)
    for (int64_t d = 0; d < p.depths(); d += most_depths) {
      const SharedB shared{s,
                           std::min(most, p.strips() - s),
                           d,
                           std::min(most_depths, p.depths() - d),
                           most * Product::kRoomB,
                           packed_b.data()};
      parallel_blocks(shared.strips * shared.depths, [&](int64_t i) {
        const int64_t strip = s + i % shared.strips, block = d + i / shared.strips;
        p.pack_b(strip, block, shared.strip(strip, block));
      });
      const int64_t columns = std::min(panels.columns, shared.strips);
      parallel_blocks(panels.rows * columns, [&](int64_t i) {
        const int64_t r = i / columns, q = i % columns;
        const Range tiles{part(p.tiles(), panels.rows, r), part(p.tiles(), panels.rows, r + 1)};
        const Range strips{s + part(shared.strips, columns, q),
                           s + part(shared.strips, columns, q + 1)};
        multiply_panel(p, tiles, strips, shared);
        if (!done || d + shared.depths < p.depths()) return;
        const int64_t row = p.row(tiles.first), column = strips.first * kColumns;
        done({row * ldc + column, p.row(tiles.second) - row,
              std::min(n, strips.second * kColumns) - column, ldc});
      });
    }
}

#else

bool tiles_available() { return false; }

void multiply_tiles(int64_t, int64_t, int64_t, const float*, MatrixStrides, const float*,
                    MatrixStrides, float, float*, int64_t) {}

void multiply_tiles_together(int64_t, int64_t, int64_t, const float*, MatrixStrides, const float*,
                             MatrixStrides, float, float*, int64_t, const PanelDone&) {}

#endif

}  // namespace tern::kernels
