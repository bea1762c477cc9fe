// Multi-head attention, as torch.nn.MultiheadAttention (batch first): same names, shapes and
// initial values. B examples, T queries, S keys, E channels, H heads of D = E / H channels, G heads
// of keys and values (H; fewer: grouped queries; 1: multi-query).
//
//   q, k, v = in_proj(query), in_proj(key), in_proj(value)     one matrix ((H + 2 G) D, E)
//   y = out_proj(softmax(q k^T / sqrt(D)) v), with the heads side by side
#pragma once

#include <memory>

#include "tern/core/base/rng.h"
#include "tern/nn/linear.h"
#include "tern/nn/mask.h"
#include "tern/nn/training_mode.h"

namespace tern::nn {

/// Keys and values of the tokens so far, which decoding keeps instead of recomputing them. A value:
/// a copy continues on its own. Copies share elements until one of them grows, so keeping the last
/// step's state costs nothing.
class KeyValueCache {
 public:
  int64_t length() const { return length_; }  ///< in tokens
  Tensor keys() const;                        ///< (B, G, length, D); undefined at first
  Tensor values() const;
  /// Appends k and v (B, G, n, D), in the type of the existing ones.
  void append(const Tensor& k, const Tensor& v);
  /// The cache of examples rows[0], rows[1], ... (i64).
  KeyValueCache select_rows(const Tensor& rows) const;

 private:
  bool may_write(int64_t more) const;

  // These may have room for more tokens than length_. A cache that has all written tokens may
  // append in place; one with fewer copies first.
  Tensor keys_, values_;
  int64_t length_ = 0;
  std::shared_ptr<int64_t> written_;
};

struct MultiHeadOptions {
  int64_t heads = 1;
  int64_t kv_heads = 0;  ///< 0: same as heads
  double dropout = 0;    ///< on the weights, in training
  Bias bias = Bias::yes;
};

struct MultiHeadAttention {
  Parameter in_proj_weight, in_proj_bias;
  Linear out_proj;
  HeadCounts counts;
  double dropout;
  TrainingMode training = true;
  mutable Rng rng;  // drawing does not count as a change of the layer

  MultiHeadAttention(int64_t dim, Rng& rng, const MultiHeadOptions& options = {});

  /// Self-attention of x (B, T, E) -> (B, T, E).
  Tensor operator()(const Tensor& x, const Mask& mask = {}) const;
  /// query (B, T, E), key and value (B, S, E).
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const Mask& mask = {}) const;
  /// The same, with the weights of every head (B, H, T, S).
  Attended with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                        const Mask& mask = {}) const;

  /// Keys and values of a memory (B, S, E), side by side (B, S, 2 G D). Computed once for all steps
  /// of a decoder.
  Tensor project_memory(const Tensor& memory) const;
  /// Attends from query (B, T, E) to the result of project_memory -> (B, T, E).
  Tensor attend_memory(const Tensor& query, const Tensor& projected, const Mask& mask = {}) const;
  /// Causal self-attention of the next tokens x (B, n, E) after the tokens in the cache, to which
  /// they are appended. Steps over a sentence give the same as the whole under Mask::causal().
  Tensor step(const Tensor& x, KeyValueCache& cache) const;

  static void fields(auto& m, auto&& visit) {
    visit("in_proj_weight", m.in_proj_weight);
    visit("in_proj_bias", m.in_proj_bias);
    visit("out_proj", m.out_proj);
    visit("training", m.training);
    visit("rng", m.rng);
  }

 private:
  int64_t head_dim() const { return in_proj_weight.size(0) / (counts.heads + 2 * counts.kv_heads); }
  enum class Part { query, key, value, key_value, all };
  Tensor project(Part part, const Tensor& x) const;
  Tensor heads(Part part, const Tensor& x) const;
  AttentionOptions options(const Mask& mask) const;
};

}  // namespace tern::nn
