// Layers of the Transformer (Vaswani et al. 2017), with torch.nn's names. B examples, T tokens of
// the sequence, S tokens of the memory, E channels.
//
//   post-norm   x = norm(x + dropout(f(x)))       as in the paper
//   pre-norm    x = x + dropout(f(norm(x)))       .norm_first = true; a stack ends with a norm
//
// f is self-attention, then attention to the memory (decoder), then the position-wise network.
#pragma once

#include <optional>
#include <vector>

#include "tern/nn/dropout.h"
#include "tern/nn/multihead_attention.h"
#include "tern/nn/norm.h"
#include "tern/nn/recompute.h"

namespace tern::nn {

struct TransformerLayerOptions {
  int64_t dim = 512, heads = 8, ffn = 2048;
  int64_t kv_heads = 0;                                            ///< 0: same as heads
  double dropout = 0.1;                                            ///< on the outputs of sublayers
  std::optional<double> attention_dropout = {}, ffn_dropout = {};  ///< default: dropout
  Activation activation = Activation::relu;
  bool norm_first = false;
  double eps = 1e-5;                      ///< of the norms
  Recompute recompute = Recompute::none;  ///< of the layers of a stack
};

/// linear2(dropout(activation(linear1(x)))) at every position: x (..., dim) -> (..., dim).
struct PositionWiseFfn {
  Linear linear1, linear2;
  Dropout dropout;
  Activation activation;

  PositionWiseFfn(int64_t dim, int64_t hidden, Rng& rng, Activation activation = Activation::relu,
                  double dropout = 0);
  Tensor operator()(const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("linear1", m.linear1);
    visit("dropout", m.dropout);
    visit("linear2", m.linear2);
  }
};

/// A residual connection around a sublayer f, with dropout and norm: norm(x + dropout(f(x))), or
/// with norm_first x + dropout(f(norm(x))).
struct AddNorm {
  LayerNorm norm;
  Dropout dropout;
  bool norm_first;

  AddNorm(int64_t dim, Rng& rng, double dropout, bool norm_first = false, double eps = 1e-5);
  template <class F>
  Tensor operator()(const Tensor& x, F&& f) const {
    return norm_first ? dropout.add(f(norm(x)), x) : norm.of_sum(f(x), x, dropout);
  }
  /// With norm_first: the sum x + dropout(fx), and the next sublayer's norm of it.
  SumAndNorm pass(const Tensor& x, const Tensor& fx, const AddNorm& next) const {
    return next.norm.with_sum(fx, x, dropout);
  }
  static void fields(auto& m, auto&& visit) {
    visit("norm", m.norm);
    visit("dropout", m.dropout);
  }
};

struct TransformerEncoderLayer {
  MultiHeadAttention self_attn;
  PositionWiseFfn ffn;
  AddNorm residual1, residual2;

  TransformerEncoderLayer(const TransformerLayerOptions& options, Rng& rng);
  /// x (B, T, E) -> (B, T, E). `weights`, if given, receives the self-attention weights (B, H, T,
  /// T).
  Tensor operator()(const Tensor& x, const Mask& mask = {}, Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    visit("self_attn", m.self_attn);
    visit("", m.ffn);
    visit("norm1", m.residual1.norm);
    visit("norm2", m.residual2.norm);
    visit("dropout1", m.residual1.dropout);
    visit("dropout2", m.residual2.dropout);
  }
};

/// A decoder layer's state between steps: keys and values of its own tokens, and of the memory.
struct DecoderLayerState {
  KeyValueCache self;
  Tensor memory;  ///< (B, S, 2 G D)

  DecoderLayerState select_rows(const Tensor& rows) const;
};

struct TransformerDecoderLayer {
  MultiHeadAttention self_attn, multihead_attn;
  PositionWiseFfn ffn;
  AddNorm residual1, residual2, residual3;

  TransformerDecoderLayer(const TransformerLayerOptions& options, Rng& rng);
  struct Weights {
    Tensor self;    ///< (B, H, T, T)
    Tensor memory;  ///< (B, H, T, S)
  };
  /// x (B, T, E), memory (B, S, E) -> (B, T, E). Without a mask every token sees all tokens, also
  /// later ones. Models that generate token by token need Mask::causal().
  Tensor operator()(const Tensor& x, const Tensor& memory, const Mask& mask = {},
                    const Mask& memory_mask = {}, Weights* weights = nullptr) const;

  /// The state before the first token; memory (B, S, E).
  DecoderLayerState start(const Tensor& memory) const;
  /// Processes the next tokens x (B, n, E), causally, and advances the state.
  Tensor step(const Tensor& x, DecoderLayerState& state, const Mask& memory_mask = {}) const;

  static void fields(auto& m, auto&& visit) {
    visit("self_attn", m.self_attn);
    visit("multihead_attn", m.multihead_attn);
    visit("", m.ffn);
    visit("norm1", m.residual1.norm);
    visit("norm2", m.residual2.norm);
    visit("norm3", m.residual3.norm);
    visit("dropout1", m.residual1.dropout);
    visit("dropout2", m.residual2.dropout);
    visit("dropout3", m.residual3.dropout);
  }
};

/// Whether a stack of layers ends with a norm. Pre-norm needs it. torch.nn.Transformer always has
/// one; PyTorch's TransformerEncoder and TransformerDecoder alone have one only if it is given.
enum class FinalNorm { no, yes };

struct TransformerEncoder {
  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
  Recompute recompute;

  TransformerEncoder(int64_t layers, const TransformerLayerOptions& options, Rng& rng,
                     FinalNorm final_norm = FinalNorm::yes);
  /// x (B, T, E) -> (B, T, E). `weights`, if given, receives those of every layer.
  Tensor operator()(const Tensor& x, const Mask& mask = {},
                    std::vector<Tensor>* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    visit("layers", m.layers);
    visit("norm", m.norm);
  }
};

struct TransformerDecoder {
  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
  Recompute recompute;

  TransformerDecoder(int64_t layers, const TransformerLayerOptions& options, Rng& rng,
                     FinalNorm final_norm = FinalNorm::yes);
  using Weights = std::vector<TransformerDecoderLayer::Weights>;
  using State = std::vector<DecoderLayerState>;
  /// x (B, T, E), memory (B, S, E) -> (B, T, E). Masks as in a layer: the default masks nothing.
  /// `weights` receives those of every layer.
  Tensor operator()(const Tensor& x, const Tensor& memory, const Mask& mask = {},
                    const Mask& memory_mask = {}, Weights* weights = nullptr) const;
  State start(const Tensor& memory) const;
  /// Processes the next tokens x (B, n, E), causally, and advances the state.
  Tensor step(const Tensor& x, State& state, const Mask& memory_mask = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("layers", m.layers);
    visit("norm", m.norm);
  }
};

}  // namespace tern::nn
