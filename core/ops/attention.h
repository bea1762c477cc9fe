// Attention in one op: softmax(scale q k^T + bias) v over the keys that a mask lets through
// (Vaswani et al. 2017), forward and backward in blocks that stay in the cache. Nothing of the size
// queries x keys is kept. B examples, H heads, T queries, S keys, D and E channels a head.
#pragma once

#include <optional>

#include "tern/core/tensor/tensor.h"

namespace tern {

class Rng;

/// Which keys a query sees: those that every given part lets through. A query that sees none gets
/// zeros, and no gradient comes from it. nn/mask.h makes and joins masks.
struct AttentionMask {
  /// i64 (B) or (B, T): the queries of example b, or its query t, see keys 0 ... lengths - 1.
  Tensor lengths = {};
  /// Query t sees keys 0 ... t + causal: 0 where queries and keys are the same tokens, the number
  /// of earlier ones where the keys came from a cache.
  std::optional<int64_t> causal = {};
  /// u8, broadcast to (B, H, T, S): keys are seen where it is not 0.
  Tensor allowed = {};
  /// Floating, broadcast to (B, H, T, S), with gradient: added to the scaled scores; -inf hides.
  Tensor bias = {};
};

struct AttentionOptions {
  AttentionMask mask = {};
  std::optional<double> scale = {};  ///< of the scores; left out: 1 / sqrt(D)
  double dropout = 0;                ///< probability with which a probability becomes 0
  Rng* rng = nullptr;                ///< needed for dropout
};

/// q (B, H, T, D), k (B, G, S, D), v (B, G, S, E) -> (B, H, T, E). G divides H: each head of k and
/// v serves H / G consecutive heads of q (grouped queries, Ainslie et al. 2023; one head for all,
/// Shazeer 2019). The result lies in memory as (B, T, H, E), so that joining the heads is a view.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

struct Attended {
  Tensor context;  ///< (B, H, T, E)
  Tensor weights;  ///< (B, H, T, S): the probabilities before dropout, with gradient
};
Attended attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionOptions& options = {});

/// Heads side by side on the last axis; kv_heads 0 stands for as many as heads.
struct HeadCounts {
  int64_t heads = 1, kv_heads = 0;
};

/// The same on a joint projection: qkv (B, T, (H + 2 G) D) holds the channels of q, then of k, then
/// of v -> (B, T, H D). One gradient comes back for all three.
Tensor self_attention(const Tensor& qkv, const HeadCounts& counts,
                      const AttentionOptions& options = {});

/// q (B, T, H D), kv (B, S, 2 G D) -> (B, T, H D).
Tensor cross_attention(const Tensor& q, const Tensor& kv, const HeadCounts& counts,
                       const AttentionOptions& options = {});

/// The mask as u8 that broadcasts to (B, H, T, S); undefined if every key is seen. A bias counts by
/// its -inf.
Tensor seen_keys(const AttentionMask& mask, const Shape& scores);

}  // namespace tern
