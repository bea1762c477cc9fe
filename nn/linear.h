// Fully connected layers and embedding table, as torch.nn.Linear, torch.nn.Bilinear and
// torch.nn.Embedding.
#pragma once

#include "tern/core/ops/ops.h"
#include "tern/nn/parameter.h"

namespace tern::nn {

/// Whether a layer adds a bias.
enum class Bias { no, yes };

/// y = x W^T + b: x (..., in) -> (..., out). Weight (out, in) and bias (out) start in
/// U(±1/sqrt(in)).
struct Linear {
  Parameter weight, bias;

  Linear(int64_t in, int64_t out, Rng& rng, Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
  /// activation(x W^T + b) + residual in one pass: up(x, {.activation = Activation::gelu}).
  Tensor operator()(const Tensor& x, const LinearOptions& options) const {
    return linear(x, weight, bias, options);
  }
  /// Runs the layer with another weight, for nn/parametrizations.h.
  Tensor with_weight(const Tensor& w, const Tensor& x, const LinearOptions& options = {}) const {
    return linear(x, w, bias, options);
  }
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// y_o = x1^T W_o x2 + b_o: x1 (..., in1) and x2 (..., in2) -> (..., out). Weight (out, in1, in2)
/// and bias (out) start in U(±1/sqrt(in1)).
struct Bilinear {
  Parameter weight, bias;

  Bilinear(int64_t in1, int64_t in2, int64_t out, Rng& rng, Bias with_bias = Bias::yes);
  Tensor operator()(const Tensor& x1, const Tensor& x2) const;
  static void fields(auto& m, auto&& visit) {
    visit("weight", m.weight);
    visit("bias", m.bias);
  }
};

/// index i64 (any shape) -> shape + (dim). The weight (count, dim) starts in N(0, 1).
struct Embedding {
  Parameter weight;
  EmbeddingOptions options;

  /// The row options.padding_idx, if given, starts at 0 and is not trained.
  Embedding(int64_t count, int64_t dim, Rng& rng, const EmbeddingOptions& options = {});
  Tensor operator()(const Tensor& index) const { return embedding(index, weight, options); }
  Tensor with_weight(const Tensor& w, const Tensor& index) const {
    return embedding(index, w, options);
  }
  static void fields(auto& m, auto&& visit) { visit("weight", m.weight); }
};

}  // namespace tern::nn
