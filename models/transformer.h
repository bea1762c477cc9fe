// The Transformer for sequences to sequences ("Attention Is All You Need", Vaswani et al. 2017).
// B sentences, S source and T target tokens, D channels, V words of the target.
//
//   x = dropout(sqrt(D) embed(tokens) + sinusoidal positions)
//   memory = encoder(x_source)                   sees the source's real tokens
//   logits = generator(decoder(x_target, memory))     a target token sees those before it
//
// The target of training starts with the beginning-of-sentence token; the logits at t are for token
// t + 1. Names: src_embed, tgt_embed, transformer.{encoder, decoder} as torch.nn.Transformer,
// generator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

struct TransformerOptions {
  int64_t source_vocab = 0, target_vocab = 0;
  int64_t encoder_layers = 6, decoder_layers = 6;
  nn::TransformerLayerOptions layer = {};
  std::optional<double> embed_dropout = {};  ///< left out: that of the layers
  bool tie_source_target = false;            ///< one table of embeddings, for one vocabulary
  bool tie_target_generator = false;         ///< the generator's matrix is the target's table
  bool final_norm = true;  ///< as torch.nn.Transformer; the paper's post-norm has none
};

/// Sizes by name, vocabularies left open: base (the paper's), multi30k (3 layers, D 256, FFN 512,
/// 8 heads), d2l (Dive into Deep Learning's: 2 layers, D 256, FFN 64, 4 heads, dropout 0.2).
TransformerOptions transformer_options(const std::string& name);
std::vector<std::string> transformer_names();

/// Weights of every layer, (B, H, T, S) each.
struct TransformerAttention {
  std::vector<Tensor> encoder, decoder, cross;
};

/// What decoding keeps of its sentences; a value.
struct TransformerState {
  nn::TransformerDecoder::State layers;
  Tensor lengths;        ///< i64 (B) of the source; undefined: nothing is padded
  int64_t position = 0;  ///< target tokens so far

  int64_t batch() const;
  /// The state of sentences rows[0], rows[1], ... (i64): what beams go on with.
  TransformerState select_rows(const Tensor& rows) const;
};

/// The two stacks, named as torch.nn.Transformer.
struct TransformerStacks {
  nn::TransformerEncoder encoder;
  nn::TransformerDecoder decoder;

  TransformerStacks(const TransformerOptions& options, Rng& rng);
  static void fields(auto& m, auto&& visit) {
    visit("encoder", m.encoder);
    visit("decoder", m.decoder);
  }
};

/// Matrices start in U(±sqrt(6 / (in + out))) as torch.nn.Transformer's, tables in N(0, 1 / D).
struct Transformer {
  TransformerOptions options;
  nn::Embedding src_embed;
  nn::Parameter target_table;  ///< undefined where it is the source's
  TransformerStacks transformer;
  nn::Parameter generator_weight;  ///< undefined where it is the target's table
  nn::Parameter generator_bias;
  nn::Dropout dropout;

  Transformer(const TransformerOptions& options, Rng& rng);

  /// Logits (B, T, V) of tokens i64 (B, S) and (B, T); lengths i64 (B) of the source, undefined
  /// where nothing is padded.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// cross_entropy of these logits and labels i64 (B, T), which is less memory without them
  /// (linear_cross_entropy).
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
              const Tensor& labels, const CrossEntropyOptions& options = {}) const;
  struct Output {
    Tensor logits;
    TransformerAttention attention;
  };
  /// The same with the weights of all attention.
  Output attend(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// The state before the first target token.
  TransformerState encode(const Tensor& source, const Tensor& lengths = {}) const;
  struct Step {
    Tensor logits;  ///< (B, V) of the next token
    TransformerState state;
  };
  /// One token a sentence, i64 (B).
  Step step(const TransformerState& state, const Tensor& tokens) const;

  static void fields(auto& m, auto&& visit) {
    auto& source = m.src_embed.weight;
    auto& target = m.options.tie_source_target ? source : m.target_table;
    visit("src_embed", m.src_embed);
    visit("tgt_embed.weight", target);
    visit("transformer", m.transformer);
    visit("generator.weight", m.options.tie_target_generator ? target : m.generator_weight);
    visit("generator.bias", m.generator_bias);
    visit("dropout", m.dropout);
  }

 private:
  const Tensor& target_weight() const;
  Tensor embedded(const Tensor& tokens, const Tensor& table, int64_t position = 0) const;
  const Tensor& generator_matrix() const;
  Tensor logits(const Tensor& y) const;
  Tensor run(const Tensor& source, const Tensor& lengths, const Tensor& target,
             TransformerAttention* attention) const;
};

}  // namespace tern::models
