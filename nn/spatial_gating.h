// The spatial gating unit of gMLP and the tiny attention of aMLP ("Pay Attention to MLPs",
// Liu et al. 2021, sections 2.1, 3.2 and 4.3). B batch, N tokens, C channels, H heads.
#pragma once

#include <optional>
#include <string>

#include "tern/core/ops/ops.h"
#include "tern/nn/mask.h"
#include "tern/nn/multihead_attention.h"
#include "tern/nn/norm.h"

namespace tern::nn {

/// How the mixed tokens f combine with u: u * f, u + f, or only f (unsplit only).
enum class Gate { multiplicative, additive, linear };

/// The form of the matrix W (N, N). full: N*N weights; toeplitz: 2N-1 weights, W[i][j] = w[N-1 +
/// j-i]; circulant: N weights, W[i][j] = w[(j-i) mod N].
enum class SpatialMatrix { full, toeplitz, circulant };

struct SpatialGatingOptions {
  Gate gate = Gate::multiplicative;
  bool split = true;  ///< u and v are halves of the channels; else both are x
  int64_t heads = 1;  ///< each with its own W for its part of v's channels
  SpatialMatrix matrix = SpatialMatrix::full;
  bool causal = false;  ///< token i sees tokens 0..i only
  /// W starts in U(±bound), near 0 in the paper. Default: 0.05, unless a model says otherwise.
  std::optional<double> weight_bound = {};
  bool shorter = false;            ///< also takes T < N tokens, as if padded to N
  const char* weight_prefix = "";  ///< prefix of the names of weight and bias; "proj." in timm
};

/// The state of a causal unit, LN(v) of earlier tokens (B, t, C). A value.
struct SpatialGatingCache {
  Tensor values = {};  ///< undefined: no tokens so far

  int64_t length() const { return values.defined() ? values.size(1) : 0; }
  /// The cache of examples rows[0], rows[1], ... (i64).
  SpatialGatingCache select_rows(const Tensor& rows) const;
};

/// x (B, N, C) -> (B, N, C/2), or (B, N, C) unsplit:
///   f[b,m,:] = sum_n W[m,n] LN(v)[b,n,:] + b[m],   y = u * f
/// `weight` is (N, N), (2N-1) or (N), `bias` (N) of ones. With several heads both have a first axis
/// H. A new unit with W = 0 passes u through, so a gMLP block is then a plain FFN.
///
/// `added` (same shape as f), if given, is added to f: the tiny attention of aMLP. `real` u8 (B,
/// N), if given, is 0 for padding: padding is left out of the sum, so that no result depends on it.
struct SpatialGatingUnit {
  LayerNorm norm;
  Parameter weight, bias;
  SpatialGatingOptions options;

  SpatialGatingUnit(int64_t channels, int64_t tokens, Rng& rng,
                    const SpatialGatingOptions& options = {});
  Tensor operator()(const Tensor& x, const Tensor& added = {}, const Tensor& real = {}) const;
  /// The same, given u and v. u (and `added`) may have only the first M <= N tokens: then only
  /// their results are computed.
  Tensor gate(const Tensor& u, const Tensor& v, const Tensor& added = {},
              const Tensor& real = {}) const;
  /// The next tokens x (B, M, C) of a causal unit; they follow those in the cache and are added to
  /// it. Steps over a sequence give the whole result, since later tokens use only LN(v) of earlier
  /// ones.
  Tensor step(const Tensor& x, SpatialGatingCache& cache, const Tensor& added = {}) const;
  /// W as (N, N), or (H, N, N) with several heads, masked if causal.
  Tensor spatial_weight() const;
  static void fields(auto& m, auto&& visit) {
    const std::string prefix = m.options.weight_prefix;
    visit("norm", m.norm);
    visit(prefix + "weight", m.weight);
    visit(prefix + "bias", m.bias);
  }

 private:
  Tensor weight_part(int64_t first, int64_t rows, int64_t columns) const;
  Tensor mixed(const Tensor& u, const Tensor& values, int64_t first, const Tensor& added) const;
};

/// Attention with one small head: x (B, N, D) -> (B, N, out).
///   q, k, v = x W_qkv;  y = softmax(q k^T / sqrt(dim)) v W_out
struct TinyAttention {
  Linear to_qkv, to_out;
  bool causal;

  TinyAttention(int64_t in, int64_t out, int64_t dim, Rng& rng, bool causal = false);
  Tensor operator()(const Tensor& x, const Mask& mask = {}) const;
  /// If causal: the next tokens x (B, n, D); they follow those in the cache and are added to it.
  Tensor step(const Tensor& x, KeyValueCache& cache) const;
  static void fields(auto& m, auto&& visit) {
    visit("to_qkv", m.to_qkv);
    visit("to_out", m.to_out);
  }
};

}  // namespace tern::nn
