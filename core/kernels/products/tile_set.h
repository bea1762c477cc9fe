// A kind of tiles (gemm_blocks.h) as a table of functions, for products that pack their operands in
// ways of their own: one piece of code then serves f32 and every way of bf16. Inside of core only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tern/core/base/ceil_div.h"

namespace tern::kernels {

struct TileSet {
  int64_t rows, columns;  ///< of the largest tile
  int64_t max_depth;      ///< longest block of k
  int64_t group;          ///< packed operands have a multiple of this many places of k
  int64_t bytes;          ///< of a packed number
  int64_t slack;          ///< numbers beyond its end that pack_a may write and a tile may read
  bool reads_b;           ///< whether tiles read B as it is: pack_b is not needed
  /// The first row of tile t of `tiles`, and the first place of k in block d of `depths`.
  int64_t (*first_row)(int64_t m, int64_t tiles, int64_t t);
  int64_t (*first_depth)(int64_t k, int64_t depths, int64_t d);
  /// Packs rows of A or columns of B, `stride` apart, with `depth` places of k. by_rows: the
  /// elements of a row are neighbours in memory; otherwise the elements of a column are.
  void (*pack_a)(const float* from, int64_t stride, bool by_rows, int64_t rows, int64_t depth,
                 void* to);
  void (*pack_b)(const float* from, int64_t stride, bool by_rows, int64_t columns, int64_t depth,
                 void* to);
  /// C = or += A B. Rows of an unpacked B are b_stride apart, rows of C ldc. REQUIRES: a TileScope.
  void (*tile)(int64_t rows, int64_t columns, int64_t depth, const void* a, const void* b,
               int64_t b_stride, float* c, int64_t ldc, bool add);
  void (*begin)(void* scope);
  void (*end)(void* scope);

  int64_t padded(int64_t depth) const { return ceil_div(depth, group) * group; }
  /// The address of packed number i.
  std::byte* at(std::byte* packed, int64_t i) const { return packed + i * bytes; }
};

/// Each thread holds one while it calls tile().
class TileScope {
 public:
  explicit TileScope(const TileSet& tiles) : tiles_(tiles) { tiles.begin(scope_); }
  ~TileScope() { tiles_.end(scope_); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileSet& tiles_;
  alignas(8) std::byte scope_[16];
};

/// Of a kind that says its `group` and `slack` as K::kPadding and K::kSlack.
template <class K>
const TileSet& tile_set() {
  using Packed = typename K::Packed;
  using Scope = typename K::Scope;
  static_assert(sizeof(Scope) <= 16 && alignof(Scope) <= 8);
  static constexpr TileSet kSet{
      K::kRows,
      K::kColumns,
      K::kMaxDepth,
      K::kPadding,
      sizeof(Packed),
      K::kSlack,
      K::kReadsB,
      K::first_row,
      K::first_depth,
      [](const float* from, int64_t stride, bool by_rows, int64_t rows, int64_t depth, void* to) {
        K::pack_a(from, stride, by_rows, rows, depth, static_cast<Packed*>(to));
      },
      [](const float* from, int64_t stride, bool by_rows, int64_t columns, int64_t depth,
         void* to) { K::pack_b(from, stride, by_rows, columns, depth, static_cast<Packed*>(to)); },
      [](int64_t rows, int64_t columns, int64_t depth, const void* a, const void* b,
         int64_t b_stride, float* c, int64_t ldc, bool add) {
        K::tile(rows, columns, depth, static_cast<const Packed*>(a), static_cast<const Packed*>(b),
                b_stride, c, ldc, add);
      },
      [](void* scope) { new (scope) Scope(); },
      [](void* scope) { std::destroy_at(static_cast<Scope*>(scope)); }};
  return kSet;
}

}  // namespace tern::kernels
