// Attention by tiles. A tile is a run of queries of one head against all keys that they see. A
// small product computes its scores, the softmax runs on them while they are in the cache, and a
// second product gives the context. Keys and values are packed once for all tiles of a head, or for
// a run of tiles. No array of size queries x keys is kept: backward recomputes a tile's
// probabilities. Tiles, and so results, depend only on the sizes. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/products/matrix.h"
#include "tern/core/kernels/random/dropout.h"

namespace tern::kernels {

/// An array (batch, head, row, column) with any strides.
template <class T>
struct Heads {
  T* data = nullptr;  ///< null: absent
  int64_t batch = 0, head = 0, row = 0, col = 0;
  T* at(int64_t b, int64_t h, int64_t i) const { return data + b * batch + h * head + i * row; }
};

/// The same for operands of products.
template <class T>
struct HeadOperands {
  Elements<T> data = {};
  int64_t batch = 0, head = 0, row = 0, col = 0;
  Elements<T> at(int64_t b, int64_t h, int64_t i) const {
    return moved(data, b * batch + h * head + i * row);
  }
};

struct AttentionSizes {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, value_dim = 0;
  /// Multiplications and additions of q k^T and of p v, including those that a causal mask hides.
  int64_t score_flops() const { return 2 * batch * heads * queries * keys * dim; }
  int64_t value_flops() const { return 2 * batch * heads * queries * keys * value_dim; }
};

/// Query t of example b and head h sees key s if s < lengths[b, t], and s <= t + offset if causal,
/// and s >= t + from if windowed, and allowed[b, h, t, s] is not 0, and the score is above -inf.
template <class T>
struct AttentionInputs {
  AttentionSizes size;
  HeadOperands<T> q, k, v;  ///< BLAS accepts the matrices of their last two axes
  T scale = 1;
  Heads<const int64_t> lengths = {};  ///< (batch, any, query, any), in [0, keys]
  bool causal = false;
  int64_t offset = 0;
  bool windowed = false;
  int64_t from = 0;
  Heads<const uint8_t> allowed = {};  ///< column stride 1
  Heads<const T> bias = {};           ///< column stride 1
  DropMask dropout = {};  ///< of probabilities; which word decides depends only on the sizes
};

/// p = softmax(scale q k^T + bias) over the visible keys, 0 elsewhere; out = drop(p) v. weights (or
/// null) receives p. Results have column stride 1.
///
/// kept (batch, heads, queries, 2; or null) receives a shift and a factor for each row of scores x,
/// from which backward recomputes p. p = factor exp(scale (x - shift)), where the shift is the
/// largest score; in bf16 p = exp(scale x - shift), where the shift is the log-sum-exp.
template <class T>
void attention(const AttentionInputs<T>& in, const Heads<T>& out, const Heads<T>& weights, T* kept);

/// With dropout's factor m:
///   dv = (m p)^T dout,  dp = m (dout v^T),  ds = p (dp - sum_s p dp),
///   dq = scale ds k,    dk = scale ds^T q,  dbias = ds
/// Results without data are not computed. Results have column stride 1.
template <class T>
void attention_backward(const AttentionInputs<T>& in, const T* kept, const Heads<const T>& dout,
                        const Heads<T>& dq, const Heads<T>& dk, const Heads<T>& dv,
                        const Heads<T>& dbias);

/// The factors m (batch, heads, queries, keys), contiguous.
template <class T>
void attention_dropout(const AttentionSizes& size, const DropMask& dropout, T* factors);

}  // namespace tern::kernels
