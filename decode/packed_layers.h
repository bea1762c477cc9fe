// Layers with packed weights (core/ops/products/packed_linear.h) for decoding. They work on
// pointers to rows of f32, without tensors, tape or allocations. The bits of a row do not depend on
// other rows. Inside of decode only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tern/core/base/threads.h"
#include "tern/core/ops/products/packed_linear.h"
#include "tern/decode/continuous_batching.h"
#include "tern/decode/token_scan.h"
#include "tern/nn/multihead_attention.h"
#include "tern/nn/norm.h"

namespace tern::decoding {

/// Error that names `op` if a weight has a LinearHook, which packed weights would not call. Call it
/// before anything is taken out of the model.
void check_unhooked(const char* op, const std::vector<Tensor>& weights);

/// LayerNorm or RMSNorm of rows.
struct PackedNorm {
  std::vector<float> weight, bias;
  double eps = 1e-5;
  bool centred = true;  ///< subtracts the mean; false: RMSNorm, whose bias is 0

  PackedNorm() = default;
  explicit PackedNorm(const nn::LayerNorm& norm);
  explicit PackedNorm(const nn::RmsNorm& norm);
  /// y (rows, dim) of x; y may be x.
  void operator()(const float* x, int64_t rows, float* y) const;
};

/// The products of MultiHeadAttention. H heads of D channels, G of keys and values.
struct PackedAttention {
  enum class Kind { self, memory };
  PackedLinear in;      ///< self: queries, keys, values (H + 2 G) D; memory: queries H D
  PackedLinear memory;  ///< keys and values of a memory, 2 G D; empty for self
  PackedLinear out;
  HeadCounts counts;
  int64_t dim = 0;  ///< D

  PackedAttention(const nn::MultiHeadAttention& attention, Kind kind, PackedType type);
  /// Self-attention. `in` has the rows of queries, keys and values below each other.
  PackedAttention(HeadCounts counts, PackedLinear in, PackedLinear out);
  int64_t queries() const { return counts.heads * dim; }
  int64_t keys() const { return counts.kv_heads * dim; }  ///< channels of keys, and of values
  int64_t bytes() const { return in.bytes() + memory.bytes() + out.bytes(); }
};

/// W2 f(W1 x), or gated: W2 (f(Wg x) * (W1 x)) with Wg and W1 below each other and f silu or
/// gelu_tanh.
struct PackedFfn {
  PackedLinear linear1, linear2;
  Activation activation;
  bool gated = false;

  int64_t bytes() const { return linear1.bytes() + linear2.bytes(); }
};
/// y (rows, n) of x (rows, 2 n): f of the first n numbers of a row times the others.
void multiply_by_gate(const float* x, int64_t rows, int64_t n, Activation f, float* y);

/// Calls fn(begin, end) on ranges of rows of n numbers, in parallel if there are many.
template <class F>
void for_rows(int64_t rows, int64_t n, F&& fn) {
  constexpr int64_t kNumbers = 1 << 14;  // of a range: some ten microseconds
  parallel_for(rows, std::max<int64_t>(1, kNumbers / std::max<int64_t>(n, 1)), std::forward<F>(fn));
}

/// The last layer with log-softmax and the most likely tokens. Never stores all logits.
class PackedGenerator {
 public:
  /// weight (V, D), bias (V).
  PackedGenerator(const Tensor& weight, const Tensor& bias, PackedType type, Shortlists shortlists);
  int64_t vocab() const { return linear_.outputs(); }
  int64_t bytes() const { return linear_.bytes(); }

  /// Buffers of one thread, reused.
  struct Room {
    std::vector<float> logits;
    std::vector<detail::RowScan> scans;
    std::vector<uint8_t> allowed;
  };
  /// The most likely next tokens of the rows of x. lists[r] has the tokens that row r may choose;
  /// empty: all.
  void operator()(const PackedRows& x, std::span<const std::span<const int64_t>> lists,
                  NextTokens& next, Room& room) const;

 private:
  void scan_all(const PackedRows& x, std::span<const std::span<const int64_t>> lists,
                NextTokens& next, Room& room) const;
  void scan_list(const PackedRows& x, int64_t row, std::span<const int64_t> list, NextTokens& next,
                 Room& room) const;

  PackedLinear linear_;
};

}  // namespace tern::decoding
