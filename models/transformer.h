// The Transformer for sequence-to-sequence tasks ("Attention Is All You Need", Vaswani et al.
// 2017). B sentences, S source and T target tokens, D channels, V target words.
//
//   x = dropout(sqrt(D) embed(tokens) + sinusoidal positions)
//   memory = encoder(x_source)                        sees all source tokens but padding
//   logits = generator(decoder(x_target, memory))     a target token sees no later ones
//
// A training target starts with the beginning-of-sentence token; the logits at t predict the next
// token. Names: src_embed, tgt_embed, transformer.{encoder, decoder} as in torch.nn.Transformer,
// generator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

struct TransformerOptions {
  int64_t source_vocab = 0, target_vocab = 0;  ///< numbers of words; required
  int64_t encoder_layers = 6, decoder_layers = 6;
  nn::TransformerLayerOptions layer = {};
  std::optional<double> embed_dropout = {};  ///< default: that of the layers
  bool tie_source_target = false;            ///< one embedding table, for a shared vocabulary
  bool tie_target_generator = false;         ///< the generator uses the target's table
  bool final_norm = true;  ///< as torch.nn.Transformer; the paper's post-norm lacks it
};

/// Sizes by name, without vocabularies: base (the paper's), multi30k (3 layers, D 256, FFN 512, 8
/// heads), d2l (Dive into Deep Learning: 2 layers, D 256, FFN 64, 4 heads, dropout 0.2).
TransformerOptions transformer_options(const std::string& name);
std::vector<std::string> transformer_names();

/// The weights of every layer, (B, H, T, S) each.
struct TransformerAttention {
  std::vector<Tensor> encoder, decoder, cross;
};

/// The state of decoding; a value.
struct TransformerState {
  nn::TransformerDecoder::State layers;
  Tensor lengths;        ///< i64 (B) of the source; undefined: no padding
  int64_t position = 0;  ///< number of target tokens so far
  int64_t sentences = 0;

  int64_t batch() const { return sentences; }
  /// The state of sentences rows[0], rows[1], ... (i64), to continue beams.
  TransformerState select_rows(const Tensor& rows) const;
};

/// The two stacks, with the names of torch.nn.Transformer.
struct TransformerStacks {
  nn::TransformerEncoder encoder;
  nn::TransformerDecoder decoder;

  TransformerStacks(const TransformerOptions& options, Rng& rng);
  static void fields(auto& m, auto&& visit) {
    visit("encoder", m.encoder);
    visit("decoder", m.decoder);
  }
};

/// Matrices start in U(±sqrt(6 / (in + out))), as in torch.nn.Transformer, tables in N(0, 1 / D).
struct Transformer {
  TransformerOptions options;
  nn::Embedding src_embed;
  nn::Parameter target_table;  ///< undefined if tied to the source's
  TransformerStacks transformer;
  nn::Parameter generator_weight;  ///< undefined if tied to the target's table
  nn::Parameter generator_bias;
  nn::Dropout dropout;

  Transformer(const TransformerOptions& options, Rng& rng);

  /// Logits (B, T, V) for source (B, S) and target (B, T), both i64. lengths i64 (B) of the source;
  /// undefined without padding.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// cross_entropy of these logits and labels i64 (B, T). Uses less memory: it does not store the
  /// logits (linear_cross_entropy).
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
              const Tensor& labels, const CrossEntropyOptions& options = {}) const;
  struct Output {
    Tensor logits;
    TransformerAttention attention;
  };
  /// Returns the weights of all attention too.
  Output attend(const Tensor& source, const Tensor& lengths, const Tensor& target) const;

  /// The state before the first target token.
  TransformerState encode(const Tensor& source, const Tensor& lengths = {}) const;
  struct Step {
    Tensor logits;  ///< (B, V), for the next token
    TransformerState state;
  };
  /// One token per sentence, i64 (B).
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
