// Attention in one op: softmax(scale q k^T + bias) v over the keys that the mask allows (Vaswani et
// al. 2017). Forward and backward run in blocks that stay in the cache; no T x S matrix is stored.
// B examples, H heads, T queries, S keys, D and E channels per head.
#pragma once

#include <optional>

#include "tern/core/tensor/tensor.h"

namespace tern {

class Rng;

/// Which keys a query sees. A query sees a key if every given member allows it. A query without
/// keys gives zeros and passes no gradient. nn/mask.h creates and joins masks.
struct AttentionMask {
  /// i64 (B) or (B, T): the queries of example b, or its query t, see keys 0 ... lengths - 1.
  Tensor lengths = {};
  /// Query t sees keys 0 ... t + causal. 0 if queries and keys are the same tokens; the number of
  /// earlier tokens if the keys come from a cache.
  std::optional<int64_t> causal = {};
  /// Query t sees keys t + from and later. With `causal` it makes a window.
  std::optional<int64_t> from = {};
  /// u8, broadcasts to (B, H, T, S). 0 hides a key.
  Tensor allowed = {};
  /// Floating, broadcasts to (B, H, T, S), differentiable. Added to the scaled scores; -inf hides.
  Tensor bias = {};
};

struct AttentionOptions {
  AttentionMask mask = {};
  std::optional<double> scale = {};  ///< factor on the scores; default 1 / sqrt(D)
  double dropout = 0;                ///< probability of zeroing a weight
  Rng* rng = nullptr;                ///< needed for dropout
};

/// q (B, H, T, D), k (B, G, S, D), v (B, G, S, E) -> (B, H, T, E). G divides H: each head of k and
/// v serves H / G consecutive heads of q (grouped queries, Ainslie et al. 2023; one head for all,
/// Shazeer 2019). The result lies in memory as (B, T, H, E): joining the heads is a view.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

struct [[nodiscard]] Attended {
  Tensor context;  ///< (B, H, T, E)
  Tensor weights;  ///< (B, H, T, S): the probabilities before dropout, differentiable
};
Attended attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionOptions& options = {});

/// Numbers of heads that lie side by side on the last axis. kv_heads 0 means the same as heads.
struct HeadCounts {
  int64_t heads = 1, kv_heads = 0;
};

/// attention() for a joint projection: qkv (B, T, (H + 2 G) D) holds the channels of q, then k,
/// then v -> (B, T, H D). All three share one gradient tensor.
Tensor self_attention(const Tensor& qkv, const HeadCounts& counts,
                      const AttentionOptions& options = {});

/// q (B, T, H D), kv (B, S, 2 G D) -> (B, T, H D).
Tensor cross_attention(const Tensor& q, const Tensor& kv, const HeadCounts& counts,
                       const AttentionOptions& options = {});

/// The mask as one u8 tensor that broadcasts to (B, H, T, S). Undefined if all keys are seen. A
/// bias hides a key only where it is -inf.
Tensor seen_keys(const AttentionMask& mask, const Shape& scores);

}  // namespace tern
