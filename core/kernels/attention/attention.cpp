// Attention forward and backward by tiles: cuts heads into tasks, packs keys and values once per
// run of tiles, and joins the steps of attention_tile.h with products.
#include "tern/core/kernels/attention/attention.h"

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/flops.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/attention/attention_tile.h"
#include "tern/core/kernels/products/product.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

/// Multiplications of one head's products, plus an estimate for its softmax.
int64_t head_cost(const AttentionSizes& s) {
  return s.queries * s.keys * (s.dim + s.value_dim + 32);
}

/// Calls fn(first, last) for ranges that cover [0, n), one task per range. An item costs `cost`
/// multiplications. With more threads the tasks are smaller, so that each thread gets some.
template <class Fn>
void in_tasks(int64_t n, int64_t cost, Fn&& fn) {
  constexpr int64_t kTaskCost = 1 << 20, kLeastCost = 1 << 18;
  const int64_t wanted = n * cost / (2 * int64_t{num_threads()});
  const int64_t work = std::clamp(wanted, kLeastCost, kTaskCost);
  const int64_t each = std::clamp<int64_t>(work / std::max<int64_t>(cost, 1), 1, 64);
  parallel_blocks(ceil_div(n, each), n * cost,
                  [&](int64_t task) { fn(task * each, std::min(n, (task + 1) * each)); });
}

// Copies the rows of a panel to rows of `to`; columns outside of the tile become 0.
template <class T>
void store_rows(const Tile& tile, const T* panel, int64_t ld, int64_t keys, const Heads<T>& to) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    T* row = to.at(tile.b, tile.h, tile.first + i);
    std::copy(panel + i * ld, panel + i * ld + tile.keys, row);
    std::fill(row + tile.keys, row + keys, T(0));
  }
}

template <class T>
Matrix<T> matrix_of(const HeadOperands<T>& x, int64_t b, int64_t h, int64_t row = 0) {
  return {x.at(b, h, row), {x.row, x.col}};
}
template <class T>
Matrix<T> matrix_of(const Heads<const T>& x, int64_t b, int64_t h, int64_t row = 0) {
  return {x.at(b, h, row), {x.row, x.col}};
}

/// Computes the contexts of all heads.
template <class T>
class HeadForward {
 public:
  HeadForward(const AttentionInputs<T>& in, const Heads<T>& out, const Heads<T>& weights, T* kept)
      : in_(in), tiling_(in.size), out_(out), weights_(weights), kept_(kept) {}

  /// Computes all heads. Each task is a run of tiles of one head.
  void run() const {
    const AttentionSizes& s = in_.size;
    const int64_t heads = s.batch * s.heads, count = tiling_.count;
    // Few tasks, since each packs its head's keys, but enough that all threads finish together.
    const int64_t wanted = int64_t{8} * num_threads();
    const int64_t runs = std::clamp<int64_t>(ceil_div(wanted, heads), 1, count);
    in_tasks(heads * runs, head_cost(s) / runs, [&](int64_t begin, int64_t end) {
      const TileMemory<T> memory(tiling_, /*backward=*/false, in_.dropout.first > 0);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t run = i % runs;
        tiles(i / runs, run * count / runs, (run + 1) * count / runs, memory.panels);
      }
    });
  }

 private:
  /// Computes tiles first .. last of a head.
  void tiles(int64_t head, int64_t first, int64_t last, const TilePanels<T>& panels) const {
    const AttentionSizes& s = in_.size;
    const int64_t b = head / s.heads, g = head % s.heads / (s.heads / s.kv_heads);
    const bool several = tiling_.count > 1;
    int64_t seen = s.keys;  // number of keys that these tiles see
    if (several) {
      seen = 0;
      const int64_t end = std::min(last * tiling_.rows, s.queries);
      for (int64_t t = first * tiling_.rows; t < end; ++t) seen = std::max(seen, reach(in_, b, t));
    }
    const SharedFactor<T> keys(matrix_of(in_.k, b, g).transposed(), s.dim, seen, several);
    const SharedFactor<T> values(matrix_of(in_.v, b, g), seen, s.value_dim, several);
    for (int64_t i = first; i < last; ++i)
      one(tiling_.tile(head * tiling_.count + i, s), keys, values, panels);
  }

  void one(Tile tile, const SharedFactor<T>& keys, const SharedFactor<T>& values,
           const TilePanels<T>& panels) const {
    const AttentionSizes& s = in_.size;
    const int64_t row = (tile.b * s.heads + tile.h) * s.queries + tile.first;
    probabilities(in_, keys, tiling_, tile, panels, kept_ ? kept_ + 2 * row : nullptr);
    if (weights_.data) store_rows(tile, panels.p, tiling_.ld, s.keys, weights_);
    if (in_.dropout.first > 0) {
      dropout_factors(in_.dropout, tiling_, tile, s.keys, panels.factors);
      multiply_rows(tile, panels.factors, s.keys, panels.p, tiling_.ld);
    }
    values.multiply({.m = tile.rows,
                     .n = s.value_dim,
                     .k = tile.keys,
                     .a = {panels.p, {tiling_.ld, 1}},
                     .c = out_.at(tile.b, tile.h, tile.first),
                     .ldc = out_.row});
  }

  const AttentionInputs<T>& in_;
  const Tiling tiling_;
  const Heads<T>&out_, &weights_;
  T* kept_;
};

/// Computes the gradients of one key/value head of one example, tile by tile in order.
template <class T>
class HeadBackward {
 public:
  HeadBackward(const AttentionInputs<T>& in, const Tiling& tiling, const T* kept,
               const Heads<const T>& dout, const Heads<T>& dq, const Heads<T>& dk,
               const Heads<T>& dv, const Heads<T>& dbias)
      : in_(in),
        tiling_(tiling),
        kept_(kept),
        dout_(dout),
        dq_(dq),
        dk_(dk),
        dv_(dv),
        dbias_(dbias) {}

  void run(int64_t b, int64_t g, const TilePanels<T>& panels) const {
    const AttentionSizes& s = in_.size;
    const int64_t group = s.heads / s.kv_heads;
    const Matrix<T> k = matrix_of(in_.k, b, g), v = matrix_of(in_.v, b, g);
    const bool several = tiling_.count > 1;
    const Factors factors{{k.transposed(), s.dim, s.keys, several},
                          {v.transposed(), s.value_dim, s.keys, several},
                          {k, s.keys, s.dim, several && dq_.data}};
    bool first = true;
    for (int64_t h = g * group; h < (g + 1) * group; ++h)
      for (int64_t i = 0; i < tiling_.count; ++i) {
        one(tiling_.tile((b * s.heads + h) * tiling_.count + i, s), g, first, factors, panels);
        first = false;
      }
  }

 private:
  /// The factors that all tiles of a key/value head share.
  struct Factors {
    SharedFactor<T> keys_turned, values_turned, keys;
  };

  void one(Tile tile, int64_t g, bool first, const Factors& factors,
           const TilePanels<T>& panels) const {
    const AttentionSizes& s = in_.size;
    const int64_t ld = tiling_.ld;
    T *p = panels.p, *d = panels.d;
    probabilities_again(in_, factors.keys_turned, tiling_, tile, panels,
                        kept_ + 2 * ((tile.b * s.heads + tile.h) * s.queries + tile.first));
    const Matrix<T> dout = matrix_of(dout_, tile.b, tile.h, tile.first);
    factors.values_turned.multiply(
        {.m = tile.rows, .n = tile.keys, .k = s.value_dim, .a = dout, .c = d, .ldc = ld});
    const T* dropout = nullptr;
    if (in_.dropout.first > 0) {
      dropout_factors(in_.dropout, tiling_, tile, s.keys, panels.factors);
      dropout = panels.factors;
    }
    softmax_gradient(tile, panels.counts, dropout, s.keys, p, d, ld);
    if (dbias_.data) store_rows(tile, d, ld, s.keys, dbias_);
    scale_rows(tile, in_.scale, d, ld);
    const Matrix<T> dropped{p, {ld, 1}}, ds{d, {ld, 1}};
    add_keys(tile, g, first, dropped, dout, s.value_dim, dv_);
    const Matrix<T> q = matrix_of(in_.q, tile.b, tile.h, tile.first);
    add_keys(tile, g, first, ds, q, s.dim, dk_);
    if (dq_.data)
      factors.keys.multiply({.m = tile.rows,
                             .n = s.dim,
                             .k = tile.keys,
                             .a = ds,
                             .c = dq_.at(tile.b, tile.h, tile.first),
                             .ldc = dq_.row});
  }

  // to (keys, columns) += x^T y, or = for the first tile of a key/value head. x (rows, keys), y
  // (rows, columns).
  void add_keys(const Tile& tile, int64_t g, bool first, Matrix<T> x, Matrix<T> y, int64_t columns,
                const Heads<T>& to) const {
    if (!to.data) return;
    T* c = to.at(tile.b, g, 0);
    if (first) scale(c + tile.keys * to.row, in_.size.keys - tile.keys, columns, to.row, T(0));
    multiply<T>({tile.keys, columns, tile.rows, x.transposed(), y, c, to.row, first ? T(0) : T(1)});
  }

  const AttentionInputs<T>& in_;
  const Tiling& tiling_;
  const T* kept_;
  const Heads<const T>& dout_;
  const Heads<T>&dq_, &dk_, &dv_, &dbias_;
};

}  // namespace

template <class T>
void attention(const AttentionInputs<T>& in, const Heads<T>& out, const Heads<T>& weights,
               T* kept) {
  tern::detail::CountFlops counted(in.size.score_flops() + in.size.value_flops());
  const AttentionSizes& s = in.size;
  if (s.batch * s.heads * s.queries == 0) return;
  const HeadForward<T> forward(in, out, weights, kept);
  BlasScope blas;
  forward.run();
}

template <class T>
void attention_backward(const AttentionInputs<T>& in, const T* kept, const Heads<const T>& dout,
                        const Heads<T>& dq, const Heads<T>& dk, const Heads<T>& dv,
                        const Heads<T>& dbias) {
  tern::detail::CountFlops counted(3 * in.size.score_flops() + 2 * in.size.value_flops());
  const AttentionSizes& s = in.size;
  const Tiling tiling(s);
  const int64_t heads = s.batch * s.kv_heads;
  if (s.queries * s.heads == 0) {
    for (int64_t i = 0; i < heads; ++i) {
      if (dk.data) scale(dk.at(i / s.kv_heads, i % s.kv_heads, 0), s.keys, s.dim, dk.row, T(0));
      if (dv.data)
        scale(dv.at(i / s.kv_heads, i % s.kv_heads, 0), s.keys, s.value_dim, dv.row, T(0));
    }
    return;
  }
  const HeadBackward<T> backward(in, tiling, kept, dout, dq, dk, dv, dbias);
  const int64_t cost = 5 * head_cost(s) * (s.heads / s.kv_heads) / 2;
  BlasScope blas;
  in_tasks(heads, cost, [&](int64_t begin, int64_t end) {
    const TileMemory<T> memory(tiling, /*backward=*/true, in.dropout.first > 0);
    for (int64_t i = begin; i < end; ++i)
      backward.run(i / s.kv_heads, i % s.kv_heads, memory.panels);
  });
}

template <class T>
void attention_dropout(const AttentionSizes& size, const DropMask& dropout, T* factors) {
  if (size.batch * size.heads * size.queries == 0) return;
  const Tiling tiling(size);
  const int64_t tiles = size.batch * size.heads * tiling.count;
  in_tasks(tiles, 8 * tiling.rows * size.keys, [&](int64_t begin, int64_t end) {
    Scratch<T> some(tiling.groups * kWordsPerGroup);
    for (int64_t i = begin; i < end; ++i) {
      const Tile tile = tiling.tile(i, size);
      dropout_factors(dropout, tiling, tile, size.keys, some.data());
      const int64_t row = (tile.b * size.heads + tile.h) * size.queries + tile.first;
      std::copy(some.data(), some.data() + tile.rows * size.keys, factors + row * size.keys);
    }
  });
}

template void attention(const AttentionInputs<float>&, const Heads<float>&, const Heads<float>&,
                        float*);
template void attention(const AttentionInputs<double>&, const Heads<double>&, const Heads<double>&,
                        double*);
template void attention_backward(const AttentionInputs<float>&, const float*,
                                 const Heads<const float>&, const Heads<float>&,
                                 const Heads<float>&, const Heads<float>&, const Heads<float>&);
template void attention_backward(const AttentionInputs<double>&, const double*,
                                 const Heads<const double>&, const Heads<double>&,
                                 const Heads<double>&, const Heads<double>&, const Heads<double>&);
template void attention_dropout(const AttentionSizes&, const DropMask&, float*);
template void attention_dropout(const AttentionSizes&, const DropMask&, double*);

}  // namespace tern::kernels
