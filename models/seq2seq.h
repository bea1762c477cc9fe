// Sequence to sequence with two LSTMs ("Sequence to Sequence Learning with Neural Networks",
// Sutskever, Vinyals & Le 2014). B sentences, S source and T target tokens, E embedding, H units.
//
//   source (B,S) -> src_embed -> encoder; its final state, layer by layer, starts the decoder
//   target (B,T) -> tgt_embed -> decoder -> generator: logits for the next token
//
// A training target starts with the beginning-of-sentence token; the logits at t are for token t +
// 1.
#pragma once

#include <optional>

#include "tern/nn/nn.h"

namespace tern::models {

struct Seq2SeqOptions {
  int64_t source_vocab = 0, target_vocab = 0;  ///< numbers of words; required
  int64_t embed = 256, hidden = 256, layers = 2;
  double dropout = 0;           ///< on embeddings and between layers
  bool reverse_source = false;  ///< the encoder reads sentences backwards (section 3.3)
};

/// tokens i64 (B, S) with the first lengths[b] tokens of each row reversed; without lengths all S
/// tokens.
Tensor reverse_tokens(const Tensor& tokens, const Tensor& lengths = {});

struct LstmSeq2Seq {
  Seq2SeqOptions options;
  nn::Embedding src_embed, tgt_embed;
  nn::Lstm encoder, decoder;
  nn::Linear generator;
  std::optional<nn::Dropout> dropout;

  LstmSeq2Seq(const Seq2SeqOptions& options, Rng& rng);
  /// Logits (B, T, target_vocab) for source (B, S) and target (B, T), both i64. lengths i64 (B) of
  /// the source; undefined without padding.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// cross_entropy of these logits and labels i64 (B, T). Uses less memory: it does not store the
  /// logits (linear_cross_entropy).
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
              const Tensor& labels, const CrossEntropyOptions& options = {}) const;

  /// The decoder's state before the first token.
  nn::RnnState encode(const Tensor& source, const Tensor& lengths = {}) const;
  struct Step {
    Tensor logits;       ///< (B, target_vocab), for the next token
    nn::RnnState state;  ///< (layers, B, H) each
  };
  /// One token per sentence, i64 (B).
  Step step(const nn::RnnState& state, const Tensor& tokens) const;

  static void fields(auto& m, auto&& visit) {
    visit("src_embed", m.src_embed);
    visit("tgt_embed", m.tgt_embed);
    visit("encoder", m.encoder);
    visit("decoder", m.decoder);
    visit("generator", m.generator);
    visit("dropout", m.dropout);
  }

 private:
  Tensor hidden(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  Tensor embedded(const nn::Embedding& table, const Tensor& tokens) const;
};

}  // namespace tern::models
