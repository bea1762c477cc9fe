// The spatial gating unit of gMLP and the tiny attention of aMLP ("Pay Attention to MLPs",
// Liu et al. 2021, sections 2.1, 3.2 and 4.3). B batch, N tokens, C channels, H heads.
#pragma once

#include "tern/core/ops/ops.h"
#include "tern/nn/norm.h"

namespace tern::nn {

/// How the mixed tokens f meet what passes by, u: u * f, u + f, or f alone (unsplit only).
enum class Gate { multiplicative, additive, linear };

/// What the matrix W (N, N) is made of: N*N weights; a diagonal constant (Toeplitz) matrix of
/// 2N-1 weights, W[i][j] = w[N-1 + j-i]; or a circulant one of N, W[i][j] = w[(j-i) mod N].
enum class SpatialMatrix { full, toeplitz, circulant };

struct SpatialGatingOptions {
  Gate gate = Gate::multiplicative;
  bool split = true;  ///< u and v are the halves of the channels; else both are x
  int64_t heads = 1;  ///< each with a W of its own for its share of v's channels
  SpatialMatrix matrix = SpatialMatrix::full;
  bool causal = false;         ///< token i sees tokens 0..i only
  double weight_bound = 0.05;  ///< W starts in U(±bound); near 0 in the paper
};

/// x (B, N, C) -> (B, N, C/2), or (B, N, C) unsplit:
///   f[b,m,:] = sum_n W[m,n] LN(v)[b,n,:] + b[m],   y = u * f
/// `weight` is (N, N), (2N-1) or (N), `bias` (N) of ones; with several heads both have a first
/// axis H. A fresh unit with W = 0 passes u through, and a gMLP block is then a plain FFN.
struct SpatialGatingUnit {
  LayerNorm norm;
  Parameter weight, bias;
  SpatialGatingOptions options;

  SpatialGatingUnit(int64_t channels, int64_t tokens, Rng& rng,
                    const SpatialGatingOptions& options = {});
  /// `added` (same shape as f), where given, is added to f: the tiny attention of aMLP.
  Tensor operator()(const Tensor& x, const Tensor& added = {}) const;
  /// The same from its two inputs. u (and `added`) may have the first M tokens only, M <= N: then
  /// only their results are computed.
  Tensor gate(const Tensor& u, const Tensor& v, const Tensor& added = {}) const;
  /// W as (N, N), or (H, N, N) with several heads, masked if causal.
  Tensor spatial_weight() const;
  static void fields(auto& m, auto&& visit) {
    visit("norm", m.norm);
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// Attention with one head of few channels: x (B, N, D) -> (B, N, out).
///   q, k, v = x W_qkv;  y = softmax(q k^T / sqrt(dim)) v W_out
struct TinyAttention {
  Linear to_qkv, to_out;
  int64_t dim;
  bool causal;

  TinyAttention(int64_t in, int64_t out, int64_t dim, Rng& rng, bool causal = false);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("to_qkv", m.to_qkv);
    visit("to_out", m.to_out);
  }
};

}  // namespace tern::nn
