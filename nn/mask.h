// Which tokens an attention may look at. One type for all of them: true means "may be attended to".
// B examples, H heads, T queries, S keys.
//
//   Mask mask = Mask::lengths(source_lengths);                  // padding behind every sentence
//   Mask mask = Mask::causal() & Mask::key_padding(not_pad);    // both must let a key through
//
// A query that sees nothing gets zeros and gives no gradient: never NaN, never an average. A mask
// is checked where it meets the scores: one that does not fit their shape is an Error.
#pragma once

#include <vector>

#include "tern/core/ops/attention.h"
#include "tern/core/ops/ops.h"

namespace tern::nn {

class Mask {
 public:
  /// Everything is seen.
  Mask() = default;

  /// i64 (B): all queries of example b see its first lengths[b] keys; or (B, T), for each query.
  /// In [0, S].
  static Mask lengths(const Tensor& lengths);
  static Mask lengths(const std::vector<int64_t>& lengths);
  /// u8 (B, S): the keys that are no padding.
  static Mask key_padding(const Tensor& keys);
  /// Query t sees keys 0 ... t + offset; offset is the number of keys before the first query's
  /// own, those of a cache.
  static Mask causal(int64_t offset = 0);
  /// u8 (not 0: seen), broadcast to (B, H, T, S): (T, S), (H, T, S), (B, 1, T, S), ...
  static Mask allowed(const Tensor& pairs);
  /// Of the scores' type, broadcast to (B, H, T, S): added to them, with gradient. -inf hides a
  /// key.
  static Mask bias(const Tensor& bias);

  /// What both let through: the smaller of lengths and offsets; biases add up.
  Mask operator&(const Mask& other) const;

  const AttentionMask& parts() const { return parts_; }
  /// The mask as u8 (B, H, T, S) (not 0: seen), expanded; undefined if no part was given.
  Tensor dense(const Shape& scores) const;
  /// Masked softmax of scores (B, H, T, S), or (B, T, S) where the mask does not differ between
  /// heads, along their last axis.
  Tensor softmax(const Tensor& scores) const;

 private:
  AttentionMask parts_;
};

}  // namespace tern::nn
