// Translation with attention ("Neural Machine Translation by Jointly Learning to Align and
// Translate", Bahdanau, Cho & Bengio 2014). B sentences, S source and T target tokens, E embedding,
// H units, M = 2H (both directions) the width of the encoder's outputs h_j.
//
//   encoder   h_j (B,S,M) by a bidirectional GRU;  s_0 = tanh(fc [h_S forward; h_1 backward])
//   alignment a_ij = softmax_j w_v . tanh(W_q s_{i-1} + W_k h_j)      W_k h_j once per sentence
//   decoder   c_i = sum_j a_ij h_j,  s_i = GRU([y_{i-1}; c_i], s_{i-1})
//   output    logits_i = out [s_i; c_i; y_{i-1}]
//
// BahdanauForm::d2l is the simpler model of "Dive into Deep Learning" (section 11.4):
// unidirectional GRUs of several layers (M = H). The encoder's state starts the decoder's, the last
// layer's state is the query, and logits_i = out s_i.
//
// A training target starts with the beginning-of-sentence token; the logits at i predict the next
// token. Names: encoder.{embedding, rnn, fc}, decoder.{embedding, attention.{W_q, W_k, w_v}, rnn,
// out}. The decoder's rnn is named as a GRUCell, in d2l's form as a GRU of several layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

enum class BahdanauForm { paper, d2l };

struct BahdanauOptions {
  int64_t source_vocab = 0, target_vocab = 0;  ///< numbers of words; required
  int64_t embed = 256, hidden = 256;
  BahdanauForm form = BahdanauForm::paper;
  int64_t layers = 1;            ///< only in d2l's form
  double dropout = 0;            ///< on embeddings
  double layer_dropout = 0;      ///< between layers; with one layer there is none
  double attention_dropout = 0;  ///< on alignments

  bool paper() const { return form == BahdanauForm::paper; }
  int64_t memory() const { return paper() ? 2 * hidden : hidden; }
};

/// The decoder's state; a value.
struct BahdanauState {
  Tensor memory;               ///< (B, S, M) the encoder's outputs
  Tensor keys;                 ///< (B, S, H) W_k h
  Tensor mask;                 ///< u8 (B, 1, S), 0 at padding; undefined: no padding
  std::vector<Tensor> hidden;  ///< (B, H) per layer

  int64_t batch() const { return memory.size(0); }
  /// The state of sentences rows[0], rows[1], ... (i64), to continue beams.
  BahdanauState select_rows(const Tensor& rows) const;
};

struct BahdanauEncoder {
  nn::Embedding embedding;
  nn::Gru rnn;
  std::optional<nn::Linear> fc;
  std::optional<nn::Dropout> dropout;

  BahdanauEncoder(const BahdanauOptions& options, Rng& rng);
  struct Output {
    Tensor memory;               ///< (B, S, M)
    std::vector<Tensor> hidden;  ///< (B, H) per layer of the decoder
  };
  Output operator()(const Tensor& source, const Tensor& lengths) const;
  static void fields(auto& m, auto&& visit) {
    visit("embedding", m.embedding);
    visit("rnn", m.rnn);
    visit("fc", m.fc);
    visit("dropout", m.dropout);
  }
};

struct BahdanauAttention {
  nn::Linear w_q, w_k, w_v;

  BahdanauAttention(const BahdanauOptions& options, Rng& rng);
  static void fields(auto& m, auto&& visit) {
    visit("W_q", m.w_q);
    visit("W_k", m.w_k);
    visit("w_v", m.w_v);
  }
};

struct BahdanauDecoder {
  BahdanauOptions options;
  nn::Embedding embedding;
  BahdanauAttention attention;
  std::vector<nn::GruCell> rnn;
  nn::Linear out;
  std::optional<nn::Dropout> dropout, layer_dropout, attention_dropout;

  BahdanauDecoder(const BahdanauOptions& options, Rng& rng);
  struct Output {
    Tensor logits;      ///< (B, T, target_vocab)
    Tensor alignments;  ///< (B, T, S)
    BahdanauState state;
  };
  /// tokens i64 (B, T), one step per token.
  Output operator()(const BahdanauState& state, const Tensor& tokens) const;
  /// The same up to the last layer, with the input of `out` in place of the logits.
  Output hidden(const BahdanauState& state, const Tensor& tokens) const;
  static void fields(auto& m, auto&& visit) {
    visit("embedding", m.embedding);
    visit("attention", m.attention);
    if (m.options.paper()) {
      visit("rnn", m.rnn[0]);
    } else {
      auto layer = [&](const std::string& name, auto& p) { visit("rnn." + name, p); };
      for (size_t i = 0; i < m.rnn.size(); ++i)
        nn::RnnParameters::fields(m.rnn[i].parameters, layer, "_l" + std::to_string(i));
    }
    visit("out", m.out);
    visit("dropout", m.dropout);
    visit("layer_dropout", m.layer_dropout);
    visit("attention_dropout", m.attention_dropout);
  }
};

struct Bahdanau {
  BahdanauEncoder encoder;
  BahdanauDecoder decoder;

  Bahdanau(const BahdanauOptions& options, Rng& rng);
  /// Logits (B, T, target_vocab) for source (B, S) and target (B, T), both i64. lengths i64 (B) of
  /// the source; undefined without padding.
  Tensor operator()(const Tensor& source, const Tensor& lengths, const Tensor& target) const;
  /// cross_entropy of these logits and labels i64 (B, T). Uses less memory: it does not store the
  /// logits (linear_cross_entropy).
  Tensor loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
              const Tensor& labels, const CrossEntropyOptions& options = {}) const;
  /// Returns the alignments too.
  BahdanauDecoder::Output align(const Tensor& source, const Tensor& lengths,
                                const Tensor& target) const;

  /// The decoder's state before the first token.
  BahdanauState encode(const Tensor& source, const Tensor& lengths = {}) const;
  struct Step {
    Tensor logits;     ///< (B, target_vocab), for the next token
    Tensor alignment;  ///< (B, S)
    BahdanauState state;
  };
  /// One token per sentence, i64 (B).
  Step step(const BahdanauState& state, const Tensor& tokens) const;

  static void fields(auto& m, auto&& visit) {
    visit("encoder", m.encoder);
    visit("decoder", m.decoder);
  }
};

}  // namespace tern::models
