// gMLP and aMLP for text ("Pay Attention to MLPs", Liu et al. 2021, section 4). B texts, T tokens,
// N the context length, D channels, V words.
//
//   tokens (B,T) -> embedding table (B,T,D) -> [positions] -> dropout -> L blocks
//   (models/gmlp_block.h) -> norm -> one of three heads:
//     GmlpLanguageModel         causal; logits (B,T,V), at t for token t + 1
//     GmlpMaskedLanguageModel   logits (B,T,V) of the masked words
//     GmlpTextClassifier        logits (B, classes)
//
// A spatial matrix is for N tokens. A text of T < N uses its corner W[:T, :T], as if padded to N.
// With `lengths`, tokens after a length do not change results before it. The matrices encode
// positions: the paper adds none.
//
// To decode with a causal model use decode/step_model.h:
//
//   NoGradGuard guard;
//   nn::set_training(model, false);
//   auto state = model.encode(narrow(prompt, 1, 0, n - 1));    // prompt (1, n)
//   decoding::sample(model, state, {.temperature = 0.8, .begin = last, .max_length = room}, rng);
//
// For each block the state keeps LN(v) of its tokens, and for an aMLP keys and values. So a step
// computes one row of each W, not the whole text. Row N - 1 is the last: a text cannot exceed N
// tokens. Dropping its first tokens does not help, since every token's row would change: encode()
// the last tokens again instead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/models/gmlp_block.h"

namespace tern::models {

struct GmlpTextOptions {
  int64_t vocab = 0;      ///< number of words; required
  int64_t context = 512;  ///< N
  int64_t dim = 512, layers = 48;
  int64_t d_ffn = 0;          ///< 0: six times dim
  int64_t attention_dim = 0;  ///< channels of the tiny attention of aMLP (64); 0: none
  bool positions = false;     ///< learned ones, added to the embeddings
  double dropout = 0;         ///< on the embeddings
  double drop_path = 0;       ///< stochastic depth of the last block; rises from 0
  bool tie_head = true;       ///< the embedding table is the output matrix
  /// .causal for language models; .weight_bound is 1e-6 by default.
  nn::SpatialGatingOptions gate = {};
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks
};

/// Sizes by name, without a vocabulary: the paper's base, large and xlarge, amlp-base and
/// amlp-large (Toeplitz matrices, N 512), and small (4 blocks of D 128, N 128).
GmlpTextOptions gmlp_text_options(const std::string& name);
std::vector<std::string> gmlp_text_names();
/// The number of weights of a GmlpLanguageModel with these options, without creating it.
int64_t gmlp_text_weights(const GmlpTextOptions& options);

/// The state of decoding; a value.
struct GmlpTextState {
  std::vector<GmlpBlockCache> blocks;
  int64_t texts = 0;
  int64_t position = 0;  ///< number of tokens so far

  int64_t batch() const { return texts; }
  /// The state of texts rows[0], rows[1], ... (i64).
  GmlpTextState select_rows(const Tensor& rows) const;
};

/// The model up to the head: (B, T, D). The table starts in N(0, 0.02^2).
struct GmlpText {
  GmlpTextOptions options;
  nn::Embedding embed;
  std::optional<nn::LearnedPositions> positions;
  nn::Dropout dropout;
  std::vector<GmlpBlock> blocks;
  nn::LayerNorm norm;

  GmlpText(const GmlpTextOptions& options, Rng& rng);
  /// tokens i64 (B, T), 1 <= T <= N; lengths i64 (B) in [0, T], undefined without padding.
  Tensor operator()(const Tensor& tokens, const Tensor& lengths = {}) const;
  /// Processes the next tokens i64 (B, n) of a causal model and advances the state.
  Tensor step(const Tensor& tokens, GmlpTextState& state) const;

  // For reports, see heatmaps.h: the spatial matrices.
  std::string summary() const;
  Heatmaps heatmaps(const Tensor& tokens) const;
  static void fields(auto& m, auto&& visit) {
    visit("embed", m.embed);
    visit("positions", m.positions);
    visit("dropout", m.dropout);
    visit("blocks", m.blocks);
    visit("norm", m.norm);
  }
};

/// A causal language model; its gates are causal whatever the options say.
struct GmlpLanguageModel {
  GmlpText model;
  nn::Parameter head;  ///< (V, D); undefined if tied to the table

  GmlpLanguageModel(const GmlpTextOptions& options, Rng& rng);
  /// Logits (B, T, V) of tokens i64 (B, T), 1 <= T <= N.
  Tensor operator()(const Tensor& tokens) const;
  /// cross_entropy of these logits and labels i64 (B, T). Uses less memory: it does not store the
  /// logits (linear_cross_entropy).
  Tensor loss(const Tensor& tokens, const Tensor& labels,
              const CrossEntropyOptions& options = {}) const;

  /// The state after tokens (B, T); T may be 0.
  GmlpTextState encode(const Tensor& tokens) const;
  struct Step {
    Tensor logits;  ///< (B, V), for the next token
    GmlpTextState state;
  };
  /// One token per text, i64 (B). Error after the last token of the context.
  Step step(const GmlpTextState& state, const Tensor& tokens) const;

  std::string summary() const { return model.summary(); }
  Heatmaps heatmaps(const Tensor& tokens) const { return model.heatmaps(tokens); }
  static void fields(auto& m, auto&& visit) {
    visit("model", m.model);
    visit("head.weight", m.model.options.tie_head ? m.model.embed.weight : m.head);
  }

 private:
  Tensor logits(const Tensor& x) const;
  const Tensor& head_matrix() const { return head.defined() ? head : model.embed.weight; }
};

/// Words at masked places: decoder(LN(GELU(transform(x)))) + bias, as in BERT's head.
struct GmlpMaskedLanguageModel {
  GmlpText model;
  nn::Linear transform;
  nn::LayerNorm norm;
  nn::Parameter decoder_weight;  ///< (V, D); undefined if tied to the table
  nn::Parameter decoder_bias;

  GmlpMaskedLanguageModel(const GmlpTextOptions& options, Rng& rng);
  /// Logits (B, T, V); tokens and lengths as GmlpText's.
  Tensor operator()(const Tensor& tokens, const Tensor& lengths = {}) const;
  /// cross_entropy of these logits and labels i64 (B, T). Uses less memory: it does not store the
  /// logits (linear_cross_entropy). Unmasked places have options.ignore_index as label.
  Tensor loss(const Tensor& tokens, const Tensor& lengths, const Tensor& labels,
              const CrossEntropyOptions& options = {}) const;

  std::string summary() const { return model.summary(); }
  Heatmaps heatmaps(const Tensor& tokens) const { return model.heatmaps(tokens); }
  static void fields(auto& m, auto&& visit) {
    visit("model", m.model);
    visit("transform", m.transform);
    visit("transform_norm", m.norm);
    visit("decoder.weight", m.model.options.tie_head ? m.model.embed.weight : m.decoder_weight);
    visit("decoder.bias", m.decoder_bias);
  }

 private:
  Tensor transformed(const Tensor& tokens, const Tensor& lengths) const;
  const Tensor& decoder_matrix() const {
    return decoder_weight.defined() ? decoder_weight : model.embed.weight;
  }
};

/// The vector that is classified: that of a text's first token (a [CLS]) or last token, or the mean
/// of all tokens. Padding is left out.
enum class TextPooling { first, last, mean };

struct GmlpClassifierOptions {
  int64_t classes = 2;
  TextPooling pooling = TextPooling::mean;
  double dropout = 0.1;  ///< on the pooled vector
};

struct GmlpTextClassifier {
  GmlpText model;
  TextPooling pooling;
  nn::Dropout dropout;
  nn::Linear head;

  GmlpTextClassifier(const GmlpTextOptions& text, const GmlpClassifierOptions& options, Rng& rng);
  /// Logits (B, classes); tokens and lengths as in GmlpText. The mean of no tokens is 0; first and
  /// last need one.
  Tensor operator()(const Tensor& tokens, const Tensor& lengths = {}) const;

  std::string summary() const { return model.summary(); }
  Heatmaps heatmaps(const Tensor& tokens) const { return model.heatmaps(tokens); }
  static void fields(auto& m, auto&& visit) {
    visit("model", m.model);
    visit("dropout", m.dropout);
    visit("head", m.head);
  }

 private:
  Tensor pooled(const Tensor& x, const Tensor& lengths) const;
};

}  // namespace tern::models
