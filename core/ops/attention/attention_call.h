// One call of attention, and its composed form by public ops, for second derivatives and for
// weights with a gradient. Inside of core only.
#pragma once

#include <vector>

#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/products/saved_operand.h"

namespace tern::detail {

/// The place of heads in an input: all of (B, H, T, D), or if dim > 0, the channels [first, first +
/// heads * dim) of (B, T, channels).
struct HeadsOf {
  int input = 0;
  int64_t first = 0, heads = 0, dim = 0;

  Layout layout(const Layout& x) const;
  Tensor of(const std::vector<Operand>& inputs) const;  ///< (B, H, T, D), by public ops
};

struct AttentionCall {
  std::vector<Operand> inputs;  ///< q, k, v; q, kv; or qkv
  HeadsOf query, key_heads, value;
  AttentionMask mask;
  double scale = 1, dropout = 0;
  uint64_t key = 0;  ///< seeds dropout's random numbers

  bool packed() const { return query.dim > 0; }
  Shape scores() const;  ///< (B, H, T, S)
  AttentionCall without_inputs() const;
};

/// Error, with the values, unless the mask fits scores of shape (B, H, T, S).
void check_mask(const AttentionMask& mask, const Shape& scores);

/// The same mask with `causal` and `from` in [-T, S], so that adding a query's number to them does
/// not overflow.
AttentionMask within_scores(AttentionMask mask, const Shape& scores);

/// Dropout's factors (B, H, T, S): 0 or 1 / (1 - p).
Tensor dropout_factors(const AttentionCall& call);

/// Returns a context (B, H, T, E) for joint projections too.
Attended composed_attention(const AttentionCall& call);

}  // namespace tern::detail
