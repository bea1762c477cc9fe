// How a product is cut into blocks that stay in the caches, for tiles of any kind. After Goto & van
// de Geijn (2008), "Anatomy of high-performance matrix multiplication": blocks of A and B are
// copied ("packed") to where the innermost loop, the tile, reads them without gaps. Inside of core
// only.
#pragma once

#include <algorithm>
#include <concepts>
#include <utility>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/matrix.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

/// A stretch of n cut into `parts`: where part i begins.
inline int64_t part(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

/// Packs rows of A and columns of B, `stride` apart, of `depth` places of k. by_rows: the elements
/// of a row lie next to each other in memory, else those of a column.
template <class K, class From>
concept Packs = requires(const From* from, int64_t stride, bool by_rows, int64_t count,
                         int64_t depth, typename K::Packed* to) {
  K::pack_a(from, stride, by_rows, count, depth, to);
  K::pack_b(from, stride, by_rows, count, depth, to);
};

/// A kind of tiles: a struct of constants and static functions.
template <class K>
concept TileKind = requires(int64_t rows, int64_t columns, int64_t depth, int64_t n, int64_t i,
                            const typename K::Packed* a, const typename K::Packed* b,
                            int64_t stride, float* c, bool add) {
  // The largest tile of C, and the longest block of k.
  { K::kRows } -> std::same_as<const int64_t&>;
  { K::kColumns } -> std::same_as<const int64_t&>;
  { K::kMaxDepth } -> std::same_as<const int64_t&>;
  // Tiles of rows that are packed together: they stay in the second cache.
  { K::kBlockTiles } -> std::same_as<const int64_t&>;
  // Up to so many rows of A, threads share A (multiply_together).
  { K::kFewRows } -> std::same_as<const int64_t&>;
  // A block of k may be packed in parts of so many places: part after part in each tile, where
  // size_a() and kColumns say.
  { K::kGroup } -> std::same_as<const int64_t&>;
  // Whether B may be read where it lies, and whether operands may be stored as bfloat16.
  { K::kReadsB } -> std::same_as<const bool&>;
  { K::kTakesBf16 } -> std::same_as<const bool&>;

  // Elements of Packed for n tiles of rows and for one strip of columns of a block of k.
  { K::room_a(n, depth) } -> std::same_as<int64_t>;
  { K::room_b(depth) } -> std::same_as<int64_t>;
  // Elements of Packed that a tile of so many rows takes.
  { K::size_a(rows, depth) } -> std::same_as<int64_t>;
  // Where tile i of n begins among all rows, and block i of n among all places of k.
  { K::first_row(rows, n, i) } -> std::same_as<int64_t>;
  { K::first_depth(depth, n, i) } -> std::same_as<int64_t>;

  // C = A B or, with `add`, C += A B for one tile. Rows of B lie b_stride apart, those of C ldc.
  K::tile(rows, columns, depth, a, b, /*b_stride=*/stride, c, /*ldc=*/stride, add);
  // A thread holds one around its calls of tile().
  typename K::Scope;

  requires Packs<K, float>;
  requires !K::kTakesBf16 || Packs<K, Bf16>;
};

using Range = std::pair<int64_t, int64_t>;  ///< tiles or strips: the first, one behind the last

/// One product, whose beta is 0 or 1, and the pieces that it is computed in: tiles of rows, strips
/// of columns, and blocks of k.
template <TileKind K>
struct Blocks : Product<float> {
  using Packed = typename K::Packed;

  explicit Blocks(const Product<float>& p) : Product<float>(p) {
    for (int64_t d = 0; d < depths(); ++d) deepest = std::max(deepest, depth(d));
  }
  int64_t deepest = 0;  ///< the longest block of k

  int64_t tiles() const { return ceil_div(m, K::kRows); }
  int64_t strips() const { return ceil_div(n, K::kColumns); }
  int64_t depths() const { return ceil_div(k, K::kMaxDepth); }
  int64_t row(int64_t tile) const { return K::first_row(m, tiles(), tile); }
  int64_t first(int64_t d) const { return K::first_depth(k, depths(), d); }
  int64_t depth(int64_t d) const { return first(d + 1) - first(d); }
  int64_t room_a(int64_t count) const { return K::room_a(count, deepest); }  ///< of tiles
  int64_t room_b() const { return K::room_b(deepest); }                      ///< of a strip
  int64_t width(int64_t strip) const { return std::min(K::kColumns, n - strip * K::kColumns); }
  Factor strip_of_b(int64_t strip, int64_t d) const {
    return b.data.at(first(d) * b.strides.row + strip * K::kColumns * b.strides.col);
  }
  /// fn(pointer) with the type of the operand's elements.
  template <class Fn>
  static void visit(const Factor& from, Fn fn) {
    if constexpr (K::kTakesBf16)
      from.visit(fn);
    else
      fn(static_cast<const float*>(from.data));
  }

  void pack_a(int64_t begin, int64_t end, int64_t d, Packed* to) const {
    const MatrixStrides s = a.strides;
    const bool by_rows = s.col == 1 || k == 1;
    each_part(by_rows, depth(d), [&](int64_t place, int64_t places) {
      Packed* tile = to;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t rows = row(t + 1) - row(t);
        visit(a.data.at(row(t) * s.row + (first(d) + place) * s.col), [&](auto from) {
          K::pack_a(from, by_rows ? s.row : s.col, by_rows, rows, places,
                    tile + K::size_a(rows, place));
        });
        tile += K::size_a(rows, depth(d));
      }
    });
  }

  /// Strips begin..end, each room_b() behind the one before.
  void pack_b(int64_t begin, int64_t end, int64_t d, Packed* to) const {
    const int64_t row = b.strides.row;
    const bool by_rows = b.strides.col == 1 || n == 1;
    each_part(!by_rows, depth(d), [&](int64_t place, int64_t places) {
      for (int64_t s = begin; s < end; ++s)
        visit(strip_of_b(s, d).at(place * row), [&](auto from) {
          K::pack_b(from, by_rows ? row : b.strides.col, by_rows, width(s), places,
                    to + (s - begin) * room_b() + place * K::kColumns);
        });
    });
  }

  /// fn(first place, places) for all of a block of k at once if it lies `along` memory. Else for
  /// parts of it: their rows are read through all tiles or strips before the next ones, in the
  /// order of memory, which is three times as fast as down one tile after the other.
  template <class Fn>
  static void each_part(bool along, int64_t depth, Fn fn) {
    const int64_t most = along ? depth : K::kGroup;
    for (int64_t place = 0; place < depth; place += most) fn(place, std::min(most, depth - place));
  }

  /// Tiles begin..end of one strip, for one block of k.
  void multiply(int64_t begin, int64_t end, int64_t strip, int64_t d, const Packed* packed_a,
                const Packed* strip_b, int64_t b_stride) const {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t rows = row(t + 1) - row(t);
      K::tile(rows, width(strip), depth(d), packed_a, strip_b, b_stride,
              c + row(t) * ldc + strip * K::kColumns, ldc, beta != 0 || d > 0);
      packed_a += K::size_a(rows, depth(d));
    }
  }
};

/// Multiplies C by beta. What is left to compute has a beta of 0 or 1.
inline Product<float> scaled(Product<float> p) {
  const float beta = p.beta;
  if (beta == 0 || beta == 1) return p;
  p.beta = 1;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] *= beta;
  return p;
}

/// In this thread.
template <TileKind K>
void multiply_alone(const Product<float>& product) {
  using Packed = typename K::Packed;
  const Blocks<K> p(product);
  const int64_t blocks = ceil_div(p.tiles(), K::kBlockTiles);
  // B is read where it lies if packing it would cost more than it saves.
  const MatrixStrides b = p.b.strides;
  const bool in_place =
      K::kReadsB && b.col == 1 && (p.k == 1 || b.row >= p.n) && (p.tiles() <= 2 || p.k <= 128);
  Scratch<Packed> packed_a(p.room_a(ceil_div(p.tiles(), blocks)));
  // A strip that no other block of A needs makes room for the next one, in the first cache.
  const bool kept = !in_place && blocks > 1;
  Scratch<Packed> packed_b((kept ? p.strips() : 1) * p.room_b());
  [[maybe_unused]] const typename K::Scope scope;
  for (int64_t d = 0; d < p.depths(); ++d)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = part(p.tiles(), blocks, block);
      const int64_t end = part(p.tiles(), blocks, block + 1);
      p.pack_a(begin, end, d, packed_a.data());
      for (int64_t s = 0; s < p.strips(); ++s) {
        const bool here = in_place && p.width(s) == K::kColumns;
        Packed* packed = packed_b.data() + (kept ? s * p.room_b() : 0);
        if (!here && (block == 0 || !kept)) p.pack_b(s, s + 1, d, packed);
        const Packed* strip = packed;
        if constexpr (K::kReadsB)
          strip = here ? static_cast<const float*>(p.strip_of_b(s, d).data) : packed;
        p.multiply(begin, end, s, d, packed_a.data(), strip, here ? b.row : K::kColumns);
      }
    }
}

/// Panels of a product whose packed B is shared by all threads.
struct Panels {
  int64_t rows, columns;  ///< of panels, in tiles and strips

  template <TileKind K>
  explicit Panels(const Blocks<K>& p) {
    constexpr int64_t kPanels = 8, kMinRows = 56;
    rows = std::clamp<int64_t>(p.tiles() * K::kRows / kMinRows, 1, kPanels);
    rows = std::min(std::max(rows, ceil_div(p.tiles(), K::kBlockTiles)), p.tiles());
    columns = std::min(p.strips(), ceil_div(kPanels, rows));
  }
};

/// B packed for some strips and blocks of k.
template <TileKind K>
struct SharedB {
  int64_t first_strip, strips, first_depth, depths;
  int64_t room;  ///< of a strip
  int64_t step;  ///< from one block of k to the next
  typename K::Packed* data;
  typename K::Packed* strip(int64_t s, int64_t d) const {
    return data + (d - first_depth) * step + (s - first_strip) * room;
  }
};

/// Some tiles of rows times some of the strips.
template <TileKind K>
void multiply_panel(const Blocks<K>& p, Range tiles, Range strips, const SharedB<K>& b) {
  Scratch<typename K::Packed> packed_a(p.room_a(tiles.second - tiles.first));
  [[maybe_unused]] const typename K::Scope scope;
  for (int64_t d = b.first_depth; d < b.first_depth + b.depths; ++d) {
    p.pack_a(tiles.first, tiles.second, d, packed_a.data());
    for (int64_t s = strips.first; s < strips.second; ++s)
      p.multiply(tiles.first, tiles.second, s, d, packed_a.data(), b.strip(s, d), K::kColumns);
  }
}

/// A packed for some blocks of k, a few tiles together.
template <TileKind K>
struct SharedA {
  static constexpr int64_t kTilesAtOnce = 4;
  int64_t tiles, first_depth, depths;
  int64_t room;  ///< of a group
  typename K::Packed* data;

  int64_t groups() const { return ceil_div(tiles, kTilesAtOnce); }
  Range range(int64_t group) const {
    return {group * kTilesAtOnce, std::min((group + 1) * kTilesAtOnce, tiles)};
  }
  typename K::Packed* group(int64_t g, int64_t d) const {
    return data + ((d - first_depth) * groups() + g) * room;
  }
};

/// All tiles times some of the strips, which are packed here.
template <TileKind K>
void multiply_strips(const Blocks<K>& p, Range strips, const SharedA<K>& a) {
  const int64_t count = strips.second - strips.first;
  Scratch<typename K::Packed> packed_b(count * p.room_b());
  [[maybe_unused]] const typename K::Scope scope;
  for (int64_t d = a.first_depth; d < a.first_depth + a.depths; ++d) {
    p.pack_b(strips.first, strips.second, d, packed_b.data());
    for (int64_t g = 0; g < a.groups(); ++g)
      for (int64_t s = 0; s < count; ++s)
        p.multiply(a.range(g).first, a.range(g).second, strips.first + s, d, a.group(g, d),
                   packed_b.data() + s * p.room_b(), K::kColumns);
  }
}

/// For an A of few rows, in all threads: they share the packed A, and each packs those strips of B
/// that it multiplies by. So both are packed once, and B, the larger one, is in the second cache
/// when it is needed.
template <TileKind K>
void multiply_sharing_a(const Product<float>& product, const PanelDone& done) {
  constexpr int64_t kStripsAtOnce = 8, kTasks = 8;  // as many tasks, or a multiple
  constexpr int64_t kMostOfA = int64_t{1} << 19;    // elements that are packed together
  const Blocks<K> p(product);
  SharedA<K> a{p.tiles(), 0, p.depths(), p.room_a(SharedA<K>::kTilesAtOnce), nullptr};
  const int64_t most = std::clamp<int64_t>(kMostOfA / (a.groups() * a.room), 1, p.depths());
  Scratch<typename K::Packed> packed_a(a.groups() * most * a.room);
  a.data = packed_a.data();
  const int64_t wanted = ceil_div(ceil_div(p.strips(), kStripsAtOnce), kTasks) * kTasks;
  const int64_t tasks = std::min(wanted, p.strips());
  for (; a.first_depth < p.depths(); a.first_depth += most) {
    a.depths = std::min(most, p.depths() - a.first_depth);
    parallel_blocks(a.groups() * a.depths, [&](int64_t i) {
      const int64_t g = i % a.groups(), d = a.first_depth + i / a.groups();
      p.pack_a(a.range(g).first, a.range(g).second, d, a.group(g, d));
    });
    parallel_blocks(tasks, [&](int64_t task) {
      const Range strips{part(p.strips(), tasks, task), part(p.strips(), tasks, task + 1)};
      multiply_strips(p, strips, a);
      if (!done || a.first_depth + a.depths < p.depths()) return;
      const int64_t column = strips.first * K::kColumns;
      done({column, p.m, std::min(p.n, strips.second * K::kColumns) - column, p.ldc});
    });
  }
}

/// In all threads, which share the packed B.
template <TileKind K>
void multiply_sharing_b(const Product<float>& product, const PanelDone& done) {
  constexpr int64_t kSharedStrips = 64;  // strips of B that are packed together at most
  constexpr int64_t kSharedBlocks = 64;  // the same, counted once for each block of k: 4 MB
  constexpr int64_t kStripsAtOnce = 4;   // strips that one task packs
  const Blocks<K> p(product);
  // B is packed a part at a time, of some strips and blocks of k, to bound the memory it takes.
  const int64_t most = std::min(p.strips(), kSharedStrips);
  const int64_t most_depths = std::clamp<int64_t>(kSharedBlocks / most, 1, p.depths());
  Scratch<typename K::Packed> packed_b(most * most_depths * p.room_b());
  const Panels panels(p);
  for (int64_t s = 0; s < p.strips(); s += most)
    for (int64_t d = 0; d < p.depths(); d += most_depths) {
      const SharedB<K> shared{s,
                              std::min(most, p.strips() - s),
                              d,
                              std::min(most_depths, p.depths() - d),
                              p.room_b(),
                              most * p.room_b(),
                              packed_b.data()};
      const int64_t packs = ceil_div(shared.strips, kStripsAtOnce);
      parallel_blocks(packs * shared.depths, [&](int64_t i) {
        const int64_t begin = s + i % packs * kStripsAtOnce, block = d + i / packs;
        const int64_t end = std::min(begin + kStripsAtOnce, s + shared.strips);
        p.pack_b(begin, end, block, shared.strip(begin, block));
      });
      const int64_t columns = std::min(panels.columns, shared.strips);
      parallel_blocks(panels.rows * columns, [&](int64_t i) {
        const int64_t r = i / columns, q = i % columns;
        const Range tiles{part(p.tiles(), panels.rows, r), part(p.tiles(), panels.rows, r + 1)};
        const Range strips{s + part(shared.strips, columns, q),
                           s + part(shared.strips, columns, q + 1)};
        multiply_panel(p, tiles, strips, shared);
        if (!done || d + shared.depths < p.depths()) return;
        const int64_t row = p.row(tiles.first), column = strips.first * K::kColumns;
        done({row * p.ldc + column, p.row(tiles.second) - row,
              std::min(p.n, strips.second * K::kColumns) - column, p.ldc});
      });
    }
}

/// In all threads. Where A is shared, a task has all rows of its strips, which have to stay in the
/// second cache; where B is, it is packed in wider pieces.
template <TileKind K>
void multiply_together(const Product<float>& p, const PanelDone& done) {
  if (p.m <= K::kFewRows || (p.m <= 2 * K::kFewRows && 2 * p.m <= p.n))
    multiply_sharing_a<K>(p, done);
  else
    multiply_sharing_b<K>(p, done);
}

}  // namespace tern::kernels
