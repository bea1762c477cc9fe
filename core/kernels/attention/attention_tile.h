// The steps of attention on one tile: probabilities, dropout, the softmax's gradient. Panels hold a
// tile's rows, `ld` apart. Elements after a tile's last key are undefined. Inside of core only.
#pragma once

#include "tern/core/base/philox.h"
#include "tern/core/kernels/attention/attention.h"
#include "tern/core/kernels/products/product.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

constexpr int64_t kWordsPerGroup = 4 * kPhiloxGroup;

struct Tile {
  int64_t number;       ///< index among all tiles
  int64_t b, h, first;  ///< example, head, first query
  int64_t rows;         ///< number of queries
  int64_t keys;         ///< every key that some query sees is in [0, keys)
};

/// The queries of a head are cut into `count` tiles of `rows` each; the last may be smaller.
struct Tiling {
  int64_t rows, count;
  int64_t ld;      ///< row stride of panels
  int64_t groups;  ///< groups of random words per tile

  explicit Tiling(const AttentionSizes& size);
  /// Tile i of batch x heads x count, with all keys.
  Tile tile(int64_t i, const AttentionSizes& size) const;
};

template <class T>
struct TilePanels {
  T* p;             ///< probabilities
  T* d;             ///< gradient of p (backward only)
  T* factors;       ///< dropout's factors (rows, keys), contiguous
  int64_t* counts;  ///< (rows): query i sees only keys in [0, counts[i])
};

/// Working memory for one tile.
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

/// The largest number of keys that query t of example b may see.
template <class T>
int64_t reach(const AttentionInputs<T>& in, int64_t b, int64_t t);

/// Sets tile.keys and panels.counts, and computes panels.p. `kept`, unless null, receives the two
/// numbers per row that backward needs (attention.h). `keys` is k^T. REQUIRES: a BlasScope is held.
template <class T>
void probabilities(const AttentionInputs<T>& in, const SharedFactor<T>& keys, const Tiling& tiling,
                   Tile& tile, const TilePanels<T>& panels, T* kept);

/// Recomputes panels.p from the kept numbers, without maxima and sums.
template <class T>
void probabilities_again(const AttentionInputs<T>& in, const SharedFactor<T>& keys,
                         const Tiling& tiling, Tile& tile, const TilePanels<T>& panels,
                         const T* kept);

/// Dropout's factors (0 or the scale) for every query and key of the tile.
template <class T>
void dropout_factors(const DropMask& dropout, const Tiling& tiling, const Tile& tile, int64_t keys,
                     T* factors);

/// p *= factors.
template <class T>
void multiply_rows(const Tile& tile, const T* factors, int64_t keys, T* p, int64_t ld);

/// d *= factor.
template <class T>
void scale_rows(const Tile& tile, T factor, T* d, int64_t ld);

/// Turns d, the gradient of the dropped p, into the gradient of the scores, and p into factors p.
/// Without factors (null) p does not change.
template <class T>
void softmax_gradient(const Tile& tile, const int64_t* counts, const T* factors, int64_t keys, T* p,
                      T* d, int64_t ld);

}  // namespace tern::kernels
