// The pieces of attention on one tile: probabilities, dropout, the gradient of the softmax.
// Panels hold a tile's rows, each `ld` apart; what lies behind a tile's last key is not defined.
// Inside of core only.
#pragma once

#include "tern/core/base/philox.h"
#include "tern/core/kernels/attention.h"
#include "tern/core/kernels/product.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

constexpr int64_t kWordsPerGroup = 4 * kPhiloxGroup;

struct Tile {
  int64_t number;       ///< among all tiles
  int64_t b, h, first;  ///< example, head, first query
  int64_t rows;         ///< queries
  int64_t keys;         ///< keys [0, keys) are all that any of the queries sees
};

/// The queries of a head are cut into `count` tiles of `rows` each, but for the last one.
struct Tiling {
  int64_t rows, count;
  int64_t ld;      ///< row stride of panels
  int64_t groups;  ///< groups of random words that a tile takes

  explicit Tiling(const AttentionSizes& size);
  /// Tile number i of batch x heads x count, seeing all keys.
  Tile tile(int64_t i, const AttentionSizes& size) const;
};

template <class T>
struct TilePanels {
  T* p;             ///< probabilities
  T* d;             ///< their gradient (backward only)
  T* factors;       ///< of dropout: (rows, keys) without gaps
  int64_t* counts;  ///< (rows): query i sees some of the keys [0, counts[i])
};

/// Working memory for one tile at a time.
template <class T>
class TileMemory {
 public:
  TileMemory(const Tiling& t, bool backward, bool dropout)
      : numbers_(t.rows * t.ld * (backward ? 2 : 1) + (dropout ? t.groups * kWordsPerGroup : 0)),
        counts_(t.rows) {
    const int64_t panel = t.rows * t.ld;
    panels.p = numbers_.data();
    panels.d = panels.p + (backward ? panel : 0);
    panels.factors = panels.d + panel;
    panels.counts = counts_.data();
  }
  TilePanels<T> panels;

 private:
  Scratch<T> numbers_;
  Scratch<int64_t> counts_;
};

/// How many keys query t of example b may see at most.
template <class T>
int64_t reach(const AttentionInputs<T>& in, int64_t b, int64_t t);

/// Sets tile.keys and panels.counts and computes panels.p and, unless null, what the backward pass
/// needs of every row. `keys` is k^T. A BlasScope is held.
template <class T>
void probabilities(const AttentionInputs<T>& in, const SharedFactor<T>& keys, const Tiling& tiling,
                   Tile& tile, const TilePanels<T>& panels, T* kept);

/// The same from what was kept: no maximum, no sum.
template <class T>
void probabilities_again(const AttentionInputs<T>& in, const SharedFactor<T>& keys,
                         const Tiling& tiling, Tile& tile, const TilePanels<T>& panels,
                         const T* kept);

/// 0 or the scale for every query and key of the tile.
template <class T>
void dropout_factors(const AttentionDropout& dropout, const Tiling& tiling, const Tile& tile,
                     int64_t keys, T* factors);

/// p *= factors.
template <class T>
void multiply_rows(const Tile& tile, const T* factors, int64_t keys, T* p, int64_t ld);

/// d *= factor.
template <class T>
void scale_rows(const Tile& tile, T factor, T* d, int64_t ld);

/// d, the gradient of what dropout made of p, becomes that of the scores; p becomes factors p.
/// Without factors (null) p stays.
template <class T>
void softmax_gradient(const Tile& tile, const int64_t* counts, const T* factors, int64_t keys, T* p,
                      T* d, int64_t ld);

}  // namespace tern::kernels
