// Attention heads, either side by side on the last axis or with an axis of their own.
// Inside of tern only.
#pragma once

#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/ops.h"

namespace tern::detail {

/// (B, T, H D) as (B, H, T, D).
inline Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(unflatten(x, -1, {heads, -1}), 1, 2);
}

/// (B, H, T, D) as (B, T, H D).
inline Tensor join_heads(const Tensor& x) { return flatten(transpose(x, 1, 2), 2); }

inline void check_heads(const char* op, int64_t dim, int64_t heads) {
  check(dim > 0 && heads > 0 && dim % heads == 0, "{}: {} channels cannot be split into {} heads",
        op, dim, heads);
}

/// Resolves kv_heads 0 to `heads`. Error if kv_heads does not divide heads.
inline HeadCounts counted_heads(const char* op, int64_t heads, int64_t kv_heads) {
  const int64_t kv = kv_heads != 0 ? kv_heads : heads;
  check(heads > 0 && kv > 0 && heads % kv == 0,
        "{}: the {} key heads must divide the {} query heads", op, kv, heads);
  return {heads, kv};
}

}  // namespace tern::detail
