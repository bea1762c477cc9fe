// Attention of single queries over keys and values at any addresses, as decoding needs it.
// Inside of tern only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace tern::detail {

/// out = softmax(q k^T / sqrt(D)) v over the keys first .. last - 1 of a text.
struct Query {
  const float* q;  ///< (H D)
  float* out;      ///< (H D)
  int64_t first, last;

  int64_t keys() const { return last - first; }
};

/// Queries of one text, in order of their positions. They read each block of keys together, from
/// the first cache. The bits of a query do not depend on the others.
struct QueryAttention {
  int64_t heads, groups, dim;  ///< H heads of queries; G of keys and values, which divide H; D
  std::span<const Query> queries;
  const float* const* keys;  ///< addresses; each has G D channels, followed by G D of its value
  int64_t offset = 0;        ///< is added to each address

  /// How many queries to give at once.
  static int64_t together(int64_t heads, int64_t groups) {
    return std::max<int64_t>(1, 16 * groups / heads);
  }
  /// The size of `scores` for `queries` queries of at most `keys` keys.
  static int64_t room(int64_t heads, int64_t groups, int64_t queries, int64_t keys);
  /// The heads of keys and values first .. last - 1, with the queries' heads that share them.
  void operator()(int64_t first, int64_t last, float* scores) const;
};

}  // namespace tern::detail
