// Cuts a product into blocks that stay in the caches, for tiles of any kind. After Goto & van de
// Geijn (2008), "Anatomy of high-performance matrix multiplication": blocks of A and B are copied
// ("packed") into contiguous memory for the innermost loop, the tile. Inside of core only.
#pragma once

#include <algorithm>
#include <concepts>
#include <utility>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/convolution/conv_windows.h"
#include "tern/core/kernels/products/even_panels.h"
#include "tern/core/kernels/products/matrix.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

/// The beginning of part i if n is cut into `parts`.
inline int64_t part(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

/// Packs rows of A and columns of B, `stride` apart, with `depth` places of k. by_rows: the
/// elements of a row are neighbours in memory; otherwise the elements of a column are.
template <class K, class From>
concept Packs = requires(const From* from, int64_t stride, bool by_rows, int64_t count,
                         int64_t depth, typename K::Packed* to) {
  K::pack_a(from, stride, by_rows, count, depth, to);
  K::pack_b(from, stride, by_rows, count, depth, to);
};

/// Prefetches packed A, 4 KB ahead. Processors prefetch B, the longer stream, by themselves.
[[gnu::always_inline]] inline void fetch_a(const void* at) {
  __builtin_prefetch(static_cast<const char*>(at) + 4096);
}

/// A kind of tiles: a struct of constants and static functions.
template <class K>
concept TileKind = requires(int64_t rows, int64_t columns, int64_t depth, int64_t n, int64_t i,
                            const typename K::Packed* a, const typename K::Packed* b,
                            int64_t stride, float* c, bool add) {
  // The size of the largest tile of C, and the length of the longest block of k.
  { K::kRows } -> std::same_as<const int64_t&>;
  { K::kColumns } -> std::same_as<const int64_t&>;
  { K::kMaxDepth } -> std::same_as<const int64_t&>;
  // Number of row tiles that are packed together: they stay in the second cache.
  { K::kBlockTiles } -> std::same_as<const int64_t&>;
  // If A has at most this many rows, threads share A (multiply_together).
  { K::kFewRows } -> std::same_as<const int64_t&>;
  // A block of k may be packed in parts of this many places. Parts follow each other in each tile;
  // size_a() and kColumns give their places.
  { K::kGroup } -> std::same_as<const int64_t&>;
  // Whether B may be read unpacked, and whether operands may be stored as bfloat16.
  { K::kReadsB } -> std::same_as<const bool&>;
  { K::kTakesBf16 } -> std::same_as<const bool&>;
  // How packed B holds bfloat16 numbers, if it does so: words of 32 columns per pair of places.
  { K::kWords } -> std::same_as<const WordOrder&>;

  // Number of elements of Packed for n row tiles of a block of k, and for a strip of columns of it.
  { K::room_a(n, depth) } -> std::same_as<int64_t>;
  { K::room_b(depth) } -> std::same_as<int64_t>;
  // Number of elements of Packed for a tile with this many rows.
  { K::size_a(rows, depth) } -> std::same_as<int64_t>;
  // The first row of tile i of n, and the first place of k in block i of n.
  { K::first_row(rows, n, i) } -> std::same_as<int64_t>;
  { K::first_depth(depth, n, i) } -> std::same_as<int64_t>;

  // C = A B, or C += A B with `add`, for one tile. Rows of B are b_stride apart, rows of C ldc.
  K::tile(rows, columns, depth, a, b, /*b_stride=*/stride, c, /*ldc=*/stride, add);
  // Each thread holds a Scope while it calls tile().
  typename K::Scope;

  requires Packs<K, float>;
  requires !K::kTakesBf16 || Packs<K, Bf16>;
};

using Range = std::pair<int64_t, int64_t>;  ///< tiles or strips: [first, last)

/// One product and its parts: row tiles, column strips, and blocks of k. REQUIRES: beta is 0 or 1.
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
  int64_t room_a(int64_t count) const { return K::room_a(count, deepest); }  ///< for tiles
  int64_t room_b() const { return K::room_b(deepest); }                      ///< for a strip
  int64_t width(int64_t strip) const { return std::min(K::kColumns, n - strip * K::kColumns); }
  Factor strip_of_b(int64_t strip, int64_t d) const {
    return b.data.at(first(d) * b.strides.row + strip * K::kColumns * b.strides.col);
  }
  /// Calls fn(pointer) with the type of the operand's elements.
  template <class Fn>
  static void visit(const Factor& from, Fn fn) {
    if constexpr (K::kTakesBf16)
      from.visit(fn);
    else
      fn(static_cast<const float*>(from.data));
  }

  /// Whether the elements of a row of A are neighbours in memory.
  bool a_by_rows() const { return a.strides.col == 1 || k == 1; }

  /// Packs row tiles begin..end, or only `places` of the block of k, from a multiple of kGroup on.
  /// REQUIRES: all places if a_by_rows(), where packing may write into the places that follow.
  void pack_a(int64_t begin, int64_t end, int64_t d, Packed* to) const {
    pack_a(begin, end, d, {0, depth(d)}, to);
  }
  void pack_a(int64_t begin, int64_t end, int64_t d, Range places, Packed* to) const {
    if (conv && conv->a.plane > 0) return pack_pictures(begin, end, d, places, to);
    const MatrixStrides s = a.strides;
    const bool by_rows = a_by_rows();
    each_part(by_rows, places, [&](int64_t place, int64_t count) {
      Packed* tile = to;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t rows = row(t + 1) - row(t);
        visit(a.data.at(row(t) * s.row + (first(d) + place) * s.col), [&](auto from) {
          K::pack_a(from, by_rows ? s.row : s.col, by_rows, rows, count,
                    tile + K::size_a(rows, place));
        });
        tile += K::size_a(rows, depth(d));
      }
    });
  }

  /// Packs strips begin..end, or only `places` of the block of k, from a multiple of kGroup on.
  /// Each strip takes room_b() elements.
  void pack_b(int64_t begin, int64_t end, int64_t d, Packed* to) const {
    pack_b(begin, end, d, {0, depth(d)}, to);
  }
  void pack_b(int64_t begin, int64_t end, int64_t d, Range places, Packed* to) const {
    if (conv) return pack_windows(begin, end, d, places, to);
    const int64_t row = b.strides.row;
    const bool by_rows = b.strides.col == 1 || n == 1;
    each_part(!by_rows, places, [&](int64_t place, int64_t count) {
      for (int64_t s = begin; s < end; ++s)
        visit(strip_of_b(s, d).at(place * row), [&](auto from) {
          K::pack_b(from, by_rows ? row : b.strides.col, by_rows, width(s), count,
                    to + (s - begin) * room_b() + place * K::kColumns);
        });
    });
  }

  /// Calls fn(first place, number of places) once if `places` lie `along` memory, otherwise for
  /// parts of them. All tiles or strips read a part's rows before the next part begins. This
  /// follows the order of memory and is three times as fast as packing one tile after the other.
  template <class Fn>
  static void each_part(bool along, Range places, Fn fn) {
    const auto [begin, end] = places;
    const int64_t most = along ? end - begin : K::kGroup;
    for (int64_t place = begin; place < end; place += most) fn(place, std::min(most, end - place));
  }

  /// Multiplies tiles begin..end by one strip, for one block of k.
  void multiply(int64_t begin, int64_t end, int64_t strip, int64_t d, const Packed* packed_a,
                const Packed* strip_b, int64_t b_stride) const {
    const int64_t columns = width(strip);
    int64_t column = strip * K::kColumns;
    bool apart = false;  // whether columns are not neighbours in memory
    if (conv && conv->c.plane > 0) {
      column += conv->column;
      apart = conv->c.step != 1 || conv->c.run(column) < columns;
      if (!apart) column = conv->c.of(column);
    }
    for (int64_t t = begin; t < end; ++t) {
      const int64_t rows = row(t + 1) - row(t);
      float* to = c + row(t) * ldc;
      const bool add = beta != 0 || d > 0;
      auto run = [&](float* tile, int64_t stride) {
        K::tile(rows, columns, depth(d), packed_a, strip_b, b_stride, tile, stride, add);
      };
      if (apart)
        run_apart(rows, column, columns, to, add, run);
      else
        run(to + column, ldc);
      packed_a += K::size_a(rows, depth(d));
    }
  }

  /// The panel of some tiles and some strips.
  Panel panel(Range tiles, Range strips) const {
    const int64_t row0 = row(tiles.first), column = strips.first * K::kColumns;
    const int64_t stride = conv ? n : ldc;
    return {row0 * stride + column, row(tiles.second) - row0,
            std::min(n, strips.second * K::kColumns) - column, stride};
  }

 private:
  /// pack_a for an A whose columns lie in pictures.
  void pack_pictures(int64_t begin, int64_t end, int64_t d, Range places, Packed* to) const {
    const auto* from = static_cast<const float*>(a.data.data);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t rows = row(t + 1) - row(t);
      const float* first_row = from + row(t) * a.strides.row;
      for (int64_t place = places.first; place < places.second;) {
        const int64_t column = conv->row + first(d) + place, rest = places.second - place;
        int64_t count = std::min(conv->a.run(column), rest);
        if (count < rest && !K::kReadsB) count -= count % K::kGroup;  // packs whole groups
        if (count >= std::min(K::kGroup, rest)) {
          K::pack_a(first_row + conv->a.of(column), a.strides.row, true, rows, count,
                    to + K::size_a(rows, place));
        } else {
          count = std::min(K::kGroup, rest);
          alignas(64) float group[K::kRows * K::kGroup];
          for (int64_t i = 0; i < count; ++i)
            for (int64_t r = 0, at = conv->a.of(column + i); r < rows; ++r)
              group[r * K::kGroup + i] = first_row[r * a.strides.row + at];
          K::pack_a(group, K::kGroup, true, rows, count, to + K::size_a(rows, place));
        }
        place += count;
      }
      to += K::size_a(rows, depth(d));
    }
  }

  /// pack_b for a B of windows.
  void pack_windows(int64_t begin, int64_t end, int64_t d, Range places, Packed* to) const {
    const int64_t row0 = conv->row + first(d), count = places.second - places.first;
    const int64_t column = begin * K::kColumns;
    if (count <= 0) return;  // a shorter block of k has fewer parts
    const WordOrder words = conv->windows->quads() ? K::kWords : WordOrder::none;
    Windows::Part part(*conv->windows, row0 + places.first, count, conv->column + column,
                       std::min(n, end * K::kColumns) - column, words);
    each_part(!part.in_place() || count <= 2 * K::kGroup, places, [&](int64_t place, int64_t rows) {
      for (int64_t s = begin; s < end; ++s) {
        Packed* strip = to + (s - begin) * room_b() + place * K::kColumns;
        part.choose(conv->column + s * K::kColumns, width(s));
        if (words != WordOrder::none) {
          part.copy_words(reinterpret_cast<float*>(strip), K::kColumns);
        } else if constexpr (K::kReadsB) {
          part.copy(row0 + place, rows, strip, K::kColumns);
        } else {
          alignas(64) float group[K::kGroup * K::kColumns];
          for (int64_t i = 0; i < rows; i += K::kGroup, strip += K::kGroup * K::kColumns) {
            part.copy(row0 + place + i, std::min(K::kGroup, rows - i), group, K::kColumns);
            K::pack_b(group, K::kColumns, true, width(s), std::min(K::kGroup, rows - i), strip);
          }
        }
      }
    });
  }

  /// Calls run(tile, stride) on a copy of columns that lie apart.
  template <class Run>
  void run_apart(int64_t rows, int64_t column, int64_t columns, float* to, bool add,
                 Run run) const {
    alignas(64) float tile[K::kRows * K::kColumns];
    // Columns of one row of a picture, or of a whole picture, lie `step` apart.
    struct Piece {
      int64_t at, begin, end;
    } pieces[K::kColumns];
    const int64_t step = conv->c.step, line = std::max<int64_t>(step, 16);
    int64_t count = 0;
    for (int64_t j = 0; j < columns; ++count) {
      const int64_t end = std::min(columns, j + conv->c.run(column + j));
      pieces[count] = {conv->c.of(column + j) - j * step, j, end};
      j = end;
    }
    auto each = [&](auto move) {
      for (int64_t r = 0; r < rows; ++r)
        for (const Piece* p = pieces; p < pieces + count; ++p) {
          float *in_tile = tile + r * K::kColumns, *in_c = to + r * ldc + p->at;
          for (int64_t j = p->begin; j < p->end; ++j) move(in_tile[j], in_c[j * step]);
        }
    };
    // The lines of C arrive while the tile is computed.
    for (int64_t r = 0; r < rows; ++r)
      for (const Piece* p = pieces; p < pieces + count; ++p)
        for (int64_t j = p->begin * step; j < p->end * step; j += line)
          __builtin_prefetch(to + r * ldc + p->at + j, 1);
    if (add) each([](float& t, const float& y) { t = y; });
    run(tile, K::kColumns);
    each([](const float& t, float& y) { y = t; });
  }
};

/// Multiplies C by beta, and returns the product with a beta of 0 or 1.
inline Product<float> scaled(Product<float> p) {
  const float beta = p.beta;
  if (beta == 0 || beta == 1) return p;
  p.beta = 1;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] *= beta;
  return p;
}

/// Computes the product on this thread.
template <TileKind K>
void multiply_alone(const Product<float>& product) {
  using Packed = typename K::Packed;
  const Blocks<K> p(product);
  const int64_t blocks = ceil_div(p.tiles(), K::kBlockTiles);
  // Reads B unpacked if packing would cost more than it saves.
  constexpr int64_t kRowsInPlace = 28, kDepthInPlace = 128;
  const MatrixStrides b = p.b.strides;
  const bool in_place = K::kReadsB && !p.conv && b.col == 1 && (p.k == 1 || b.row >= p.n) &&
                        (p.m <= kRowsInPlace || p.k <= kDepthInPlace);
  Scratch<Packed> packed_a(p.room_a(ceil_div(p.tiles(), blocks)));
  // If no other block of A needs a strip, the next strip overwrites it in the first cache. Windows
  // are packed together, since strips read the same pictures.
  const bool kept = !in_place && (blocks > 1 || p.conv);
  Scratch<Packed> packed_b((kept ? p.strips() : 1) * p.room_b());
  [[maybe_unused]] const typename K::Scope scope;
  for (int64_t d = 0; d < p.depths(); ++d)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = part(p.tiles(), blocks, block);
      const int64_t end = part(p.tiles(), blocks, block + 1);
      p.pack_a(begin, end, d, packed_a.data());
      if (p.conv && block == 0) p.pack_b(0, p.strips(), d, packed_b.data());
      for (int64_t s = 0; s < p.strips(); ++s) {
        const bool here = in_place && p.width(s) == K::kColumns;
        Packed* packed = packed_b.data() + (kept ? s * p.room_b() : 0);
        if (!here && !p.conv && (block == 0 || !kept)) p.pack_b(s, s + 1, d, packed);
        const Packed* strip = packed;
        if constexpr (K::kReadsB)
          strip = here ? static_cast<const float*>(p.strip_of_b(s, d).data) : packed;
        p.multiply(begin, end, s, d, packed_a.data(), strip, here ? b.row : K::kColumns);
      }
    }
}

/// The panels of a product whose packed B all threads share.
struct Panels {
  int64_t rows, columns;  ///< in tiles and strips per panel

  template <TileKind K>
  explicit Panels(const Blocks<K>& p) {
    constexpr int64_t kPanels = 8, kMinRows = 56;
    rows = std::clamp<int64_t>(p.tiles() * K::kRows / kMinRows, 1, kPanels);
    rows = std::max(rows, ceil_div(p.tiles(), K::kBlockTiles));
    const int64_t threads = loop_threads();
    rows = ceil_div(rows, threads) * threads;  // equal numbers
    rows = std::min(rows, p.tiles());
    columns = std::min(p.strips(), ceil_div(kPanels, rows));
  }
};

/// B packed for some strips and some blocks of k.
template <TileKind K>
struct SharedB {
  int64_t first_strip, strips, first_depth, depths;
  int64_t room;  ///< per strip
  int64_t step;  ///< distance between blocks of k
  typename K::Packed* data;
  typename K::Packed* strip(int64_t s, int64_t d) const {
    return data + (d - first_depth) * step + (s - first_strip) * room;
  }
};

/// Multiplies some row tiles by some strips.
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

/// A packed for some blocks of k, in groups of a few tiles.
template <TileKind K>
struct SharedA {
  static constexpr int64_t kTilesAtOnce = 4;
  int64_t tiles, first_depth, depths;
  int64_t room;  ///< per group
  typename K::Packed* data;

  int64_t groups() const { return ceil_div(tiles, kTilesAtOnce); }
  Range range(int64_t group) const {
    return {group * kTilesAtOnce, std::min((group + 1) * kTilesAtOnce, tiles)};
  }
  typename K::Packed* group(int64_t g, int64_t d) const {
    return data + ((d - first_depth) * groups() + g) * room;
  }
};

/// Packs some strips and multiplies all tiles by them.
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

/// Computes a product with few rows of A on all threads. They share the packed A, and each packs
/// the strips of B that it multiplies. So both are packed once, and B, the larger one, is in the
/// second cache when needed.
template <TileKind K>
void multiply_sharing_a(const Product<float>& product, const PanelDone& done) {
  constexpr int64_t kStripsAtOnce = 8, kTasks = 8;  // strips per task; least number of tasks
  constexpr int64_t kMostOfA = int64_t{1} << 19;    // most elements packed together
  const Blocks<K> p(product);
  SharedA<K> a{p.tiles(), 0, p.depths(), p.room_a(SharedA<K>::kTilesAtOnce), nullptr};
  const int64_t most = std::clamp<int64_t>(kMostOfA / (a.groups() * a.room), 1, p.depths());
  Scratch<typename K::Packed> packed_a(a.groups() * most * a.room);
  a.data = packed_a.data();
  // An equal number of tasks for each thread.
  const int64_t multiple = std::max<int64_t>(kTasks, loop_threads());
  const int64_t wanted = ceil_div(ceil_div(p.strips(), kStripsAtOnce), multiple) * multiple;
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
      done(p.panel({0, p.tiles()}, strips));
    });
  }
}

/// Computes the product on all threads, which share the packed B.
template <TileKind K>
void multiply_sharing_b(const Product<float>& product, const PanelDone& done) {
  constexpr int64_t kSharedStrips = 64;  // most strips of B packed together
  constexpr int64_t kSharedBlocks = 64;  // the same per block of k: 4 MB
  constexpr int64_t kStripsAtOnce = 4;   // strips that a task packs
  const Blocks<K> p(product);
  // Packs B in parts, of some strips and blocks of k, to limit memory.
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
        done(p.panel(tiles, strips));
      });
    }
}

/// Multiplies some row tiles by some strips. Both are packed.
template <TileKind K>
void multiply_packed_panel(const Blocks<K>& p, Range tiles, Range strips, const SharedA<K>& a,
                           const SharedB<K>& b) {
  [[maybe_unused]] const typename K::Scope scope;
  for (int64_t d = b.first_depth; d < b.first_depth + b.depths; ++d)
    for (int64_t begin = tiles.first; begin < tiles.second;) {
      const Range group = a.range(begin / SharedA<K>::kTilesAtOnce);
      const int64_t end = std::min(tiles.second, group.second);
      const typename K::Packed* packed = a.group(begin / SharedA<K>::kTilesAtOnce, d);
      for (int64_t t = group.first; t < begin; ++t)
        packed += K::size_a(p.row(t + 1) - p.row(t), p.depth(d));
      for (int64_t s = strips.first; s < strips.second; ++s)
        p.multiply(begin, end, s, d, packed, b.strip(s, d), K::kColumns);
      begin = end;
    }
}

/// Computes the product on many threads, which share both operands. Packing both before any
/// multiplication allows panels of any size without packing anything twice.
template <TileKind K>
class SharingBoth {
 public:
  SharingBoth(const Product<float>& product, int64_t threads) : p_(product), threads_(threads) {
    a_.tiles = p_.tiles();
    a_.room = p_.room_a(SharedA<K>::kTilesAtOnce);
  }

  /// Whether a block of k of A is small enough to be packed at once.
  bool fits() const { return a_.groups() * a_.room <= 2 * room() * p_.room_b(); }

  void run(const PanelDone& done) {
    const int64_t most = std::min(p_.strips(), room());
    const EvenPanels panels(p_.tiles(), K::kRows, most, K::kColumns, threads_);
    const int64_t of_a = std::max<int64_t>(1, room() * p_.room_b() / (a_.groups() * a_.room));
    const int64_t depths = std::clamp<int64_t>(std::min(room() / most, of_a), 1, p_.depths());
    // One block of memory for both: the allocator reads and writes a line beside every large block,
    // which no cache holds.
    const int64_t size_b = most * depths * p_.room_b();
    Scratch<typename K::Packed> packed(size_b + a_.groups() * depths * a_.room);
    a_.data = packed.data() + size_b;
    for (int64_t d = 0; d < p_.depths(); d += depths)
      for (int64_t s = 0; s < p_.strips(); s += most) {
        a_.first_depth = d;
        a_.depths = std::min(depths, p_.depths() - d);
        const SharedB<K> b{s,
                           std::min(most, p_.strips() - s),
                           d,
                           a_.depths,
                           p_.room_b(),
                           most * p_.room_b(),
                           packed.data()};
        pack(b, /*with_a=*/s == 0);
        multiply(b, panels, d + b.depths < p_.depths() ? PanelDone() : done);
      }
  }

 private:
  static constexpr int64_t kBlocksEach = 8;    // blocks of packed B (64 KB in f32) per thread
  static constexpr int64_t kStripsAtOnce = 4;  // most strips that a task packs
  static constexpr int64_t kPlacesAtOnce = 256;
  static_assert(kPlacesAtOnce % K::kGroup == 0);
  int64_t room() const { return kBlocksEach * threads_; }

  /// Packs in tasks for all threads, the larger ones first.
  void pack(const SharedB<K>& b, bool with_a) const {
    const int64_t pieces = ceil_div(p_.deepest, kPlacesAtOnce);
    const int64_t at_once =
        std::clamp<int64_t>(b.strips * pieces * b.depths / threads_, 1, kStripsAtOnce);
    const int64_t pieces_a = p_.a_by_rows() ? 1 : pieces;
    const int64_t packs_b = ceil_div(b.strips, at_once) * pieces * b.depths;
    const int64_t packs_a = with_a ? a_.groups() * pieces_a * b.depths : 0;
    auto places = [&](int64_t piece, int64_t of, int64_t d) {
      const int64_t most = of == 1 ? p_.deepest : kPlacesAtOnce, first = piece * most;
      return Range{first, std::min(first + most, p_.depth(d))};
    };
    parallel_blocks(packs_b + packs_a, [&](int64_t i) {
      if (i < packs_b) {
        const int64_t piece = i % pieces, d = b.first_depth + i / pieces % b.depths;
        const int64_t begin = b.first_strip + i / (pieces * b.depths) * at_once;
        const int64_t end = std::min(begin + at_once, b.first_strip + b.strips);
        p_.pack_b(begin, end, d, places(piece, pieces, d), b.strip(begin, d));
      } else {
        i -= packs_b;
        const int64_t piece = i % pieces_a, d = b.first_depth + i / pieces_a % b.depths;
        const int64_t g = i / (pieces_a * b.depths);
        p_.pack_a(a_.range(g).first, a_.range(g).second, d, places(piece, pieces_a, d),
                  a_.group(g, d));
      }
    });
  }

  void multiply(const SharedB<K>& b, const EvenPanels& panels, const PanelDone& done) const {
    const int64_t columns = std::min(panels.columns, b.strips);
    parallel_blocks(panels.rows * columns, [&](int64_t i) {
      const int64_t r = i / columns, c = i % columns;
      const Range tiles{part(p_.tiles(), panels.rows, r), part(p_.tiles(), panels.rows, r + 1)};
      const Range strips{b.first_strip + part(b.strips, columns, c),
                         b.first_strip + part(b.strips, columns, c + 1)};
      multiply_packed_panel(p_, tiles, strips, a_, b);
      if (done) done(p_.panel(tiles, strips));
    });
  }

  const Blocks<K> p_;
  const int64_t threads_;
  SharedA<K> a_{};
};

/// Computes the product on all threads. If they share A, a task computes all rows of its strips,
/// which must stay in the second cache. If they share B, it is packed in wider pieces. Many threads
/// share both. All three forms give the same bits.
template <TileKind K>
void multiply_together(const Product<float>& p, const PanelDone& done) {
  constexpr int64_t kManyStrips = 8;  // per thread
  const int64_t threads = loop_threads();
  if (threads > kFewThreads) {
    SharingBoth<K> both(p, threads);
    const bool wide = p.m <= K::kFewRows && p.n >= kManyStrips * threads * K::kColumns;
    if (!wide && both.fits()) return both.run(done);
  }
  if (p.m <= K::kFewRows || (p.m <= 2 * K::kFewRows && 2 * p.m <= p.n))
    multiply_sharing_a<K>(p, done);
  else
    multiply_sharing_b<K>(p, done);
}

}  // namespace tern::kernels
