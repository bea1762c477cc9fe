// Attention masks. One type for all kinds; true means "visible". B examples, H heads, T queries, S
// keys.
//
//   Mask mask = Mask::lengths(source_lengths);                  // padding after every sentence
//   Mask mask = Mask::causal() & Mask::keys(not_pad);           // both must allow a key
//
// A query without visible keys gives zeros and no gradient, never NaN or an average. A mask is
// checked when it is applied: Error if it does not fit the scores' shape.
#pragma once

#include <vector>

#include "tern/core/ops/attention/attention.h"
#include "tern/core/ops/ops.h"

namespace tern::nn {

class Mask {
 public:
  /// Everything is visible.
  Mask() = default;

  /// i64, in [0, S]. (B): all queries of example b see its first lengths[b] keys. (B, T): one
  /// length per query.
  static Mask lengths(const Tensor& lengths);
  static Mask lengths(const std::vector<int64_t>& lengths);
  /// u8 (B, S), not 0: the key is visible. PyTorch's key_padding_mask is the opposite, true for
  /// ignored keys: convert it by Mask::keys(logical_not(key_padding_mask)).
  static Mask keys(const Tensor& visible);
  /// Query t sees keys 0 ... t + offset. offset is the number of keys before the first query's own
  /// key, as in a cache. With a window above 0 it sees only the last `window` of these keys (a
  /// sliding window).
  static Mask causal(int64_t offset = 0, int64_t window = 0);
  /// u8, not 0: visible. Broadcasts to (B, H, T, S): (T, S), (H, T, S), (B, 1, T, S), ...
  static Mask allowed(const Tensor& pairs);
  /// Added to the scores, in their type, differentiable; broadcasts to (B, H, T, S). -inf hides a
  /// key.
  static Mask bias(const Tensor& bias);

  /// Shows the keys that both masks show: takes the smaller length and offset, and adds biases.
  Mask operator&(const Mask& other) const;

  const AttentionMask& parts() const { return parts_; }
  /// The mask as u8 (B, H, T, S), not 0: visible; expanded. Undefined if the mask has no parts.
  Tensor dense(const Shape& scores) const;
  /// Masked softmax along the last axis of scores (B, H, T, S), or of (B, T, S) if the mask is the
  /// same for all heads.
  Tensor softmax(const Tensor& scores) const;

 private:
  AttentionMask parts_;
};

}  // namespace tern::nn
