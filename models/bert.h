// BERT ("Pre-training of Deep Bidirectional Transformers", Devlin et al. 2019), with the names of
// transformers' BertForPreTraining. B examples, T tokens, D channels, V words, K masked places.
//
//   x = dropout(norm(words + positions + segments))
//   L layers: x = norm(x + dropout(attention(x)));  x = norm(x + dropout(ffn(x)))   post-norm
//   pooled = tanh(pooler(x[:, 0]))                    the token [CLS]
//   masked words:   logits = words' norm(gelu(dense(x)))^T + bias       the decoder is the table
//   next sentence:  logits = seq_relationship(pooled)     0: B follows A, 1: it does not
//   classes:        logits = classifier(dropout(pooled))
//
// Training computes logits only at masked places:
//
//   Rng rng(1);
//   models::Bert model(models::bert_options("tiny"), rng);
//   for (datasets::BertBatch& b : loader) {                  // data/text/documents/bert_loader.h
//     models::BertLoss loss = models::pretraining_loss(
//         model, {b.tokens, b.segments, nn::Mask::lengths(b.lengths)},
//         {b.places, b.words, b.next});
//     loss.total.backward(); ...
//
// The options choose the heads. For fine-tuning set .masked_lm = .next_sentence = false and
// .classes = n.
//
// Options make the model RoBERTa, DistilBERT, ELECTRA or MPNet as well: load_bert() sets them for
// the files of those models. Vectors of texts: sentence.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tern/nn/nn.h"

namespace tern::models {

struct BertOptions {
  int64_t vocab = 30522;
  int64_t dim = 768, layers = 12, heads = 12, ffn = 3072;
  int64_t positions = 512;       ///< length of the longest input
  int64_t segments = 2;          ///< 0: none, as in DistilBERT and MPNet
  int64_t position_offset = 0;   ///< rows of the table before position 0; in RoBERTa pad + 1
  int64_t embedding_dim = 0;     ///< channels of the tables, as in ELECTRA; 0: dim
  int64_t relative_buckets = 0;  ///< biases of attention by distance, as in MPNet (32); 0: none
  double dropout = 0.1;          ///< on the embeddings and on the outputs of sublayers
  double attention_dropout = 0.1;
  std::optional<double> classifier_dropout = {};  ///< default: that of the layers
  Activation activation = Activation::gelu;
  double eps = 1e-12;     ///< of the norms
  int64_t pad = 0;        ///< this input word gets no gradient; -1: none
  bool masked_lm = true;  ///< the head for masked words
  bool next_sentence = true;
  int64_t classes = 0;             ///< of the classifier; 0: no classifier
  bool classes_of_tokens = false;  ///< classifies every token, from its hidden state
  Activation pooler_activation = Activation::tanh;
  nn::Recompute recompute = nn::Recompute::none;  ///< of the layers
};

/// Names and sizes: base and large (the paper's), medium, small, mini and tiny ("Well-Read Students
/// Learn Better", Turc et al. 2019).
const std::vector<std::pair<std::string, BertOptions>>& bert_configurations();
/// The options with this name.
BertOptions bert_options(const std::string& name);
std::vector<std::string> bert_names();
/// The number of weights of a model with these options. Takes no memory.
int64_t bert_weights(const BertOptions& options);

/// The input of the model.
struct BertInput {
  Tensor tokens;         ///< i64 (B, T), T <= options.positions
  Tensor segments = {};  ///< i64 (B, T); undefined: all 0
  /// Mask::lengths (B) or Mask::keys (B, T); default: no padding. Token t of a row has position t:
  /// padding stands behind the text.
  nn::Mask mask = {};
};

struct BertEmbeddings {
  nn::Embedding word_embeddings, position_embeddings;
  std::optional<nn::Embedding> token_type_embeddings;
  int64_t position_offset;
  nn::LayerNorm norm;
  nn::Dropout dropout;

  BertEmbeddings(const BertOptions& options, Rng& rng);
  Tensor operator()(const Tensor& tokens, const Tensor& segments) const;  ///< -> (B, T, E)
  int64_t positions() const { return position_embeddings.weight.size(0) - position_offset; }
  static void fields(auto& m, auto&& visit) {
    visit("word_embeddings", m.word_embeddings);
    visit("position_embeddings", m.position_embeddings);
    visit("token_type_embeddings", m.token_type_embeddings);
    visit("LayerNorm", m.norm);
    visit("dropout", m.dropout);
  }
};

struct BertSelfAttention {
  nn::Linear query, key, value;
  nn::Dropout dropout;  ///< on the weights
  int64_t heads;

  BertSelfAttention(const BertOptions& options, Rng& rng);
  /// x (B, T, D) -> (B, T, D). `weights`, if given, receives those of every head (B, H, T, T).
  Tensor operator()(const Tensor& x, const nn::Mask& mask, Tensor* weights) const;
  static void fields(auto& m, auto&& visit) {
    visit("query", m.query);
    visit("key", m.key);
    visit("value", m.value);
    visit("dropout", m.dropout);
  }
};

/// The end of a sublayer: norm(x + dropout(dense(h))).
struct BertAddNorm {
  nn::Linear dense;
  nn::LayerNorm norm;
  nn::Dropout dropout;

  BertAddNorm(int64_t in, const BertOptions& options, Rng& rng);
  Tensor operator()(const Tensor& h, const Tensor& x) const;
  static void fields(auto& m, auto&& visit) {
    visit("dense", m.dense);
    visit("LayerNorm", m.norm);
    visit("dropout", m.dropout);
  }
};

struct BertLayer {
  BertSelfAttention attention;
  BertAddNorm attention_output;
  nn::Linear intermediate;
  BertAddNorm output;
  Activation activation;

  BertLayer(const BertOptions& options, Rng& rng);
  Tensor operator()(const Tensor& x, const nn::Mask& mask, Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    visit("attention.self", m.attention);
    visit("attention.output", m.attention_output);
    visit("intermediate.dense", m.intermediate);
    visit("output", m.output);
  }
};

/// The model without heads.
struct BertModel {
  BertEmbeddings embeddings;
  std::vector<BertLayer> layers;
  std::optional<nn::Linear> projection;             ///< (D, E), if E differs from D
  std::optional<nn::Embedding> relative_attention;  ///< (relative_buckets, H)
  std::optional<nn::Linear> pooler;                 ///< only if a head needs it
  Activation pooler_activation;
  nn::Recompute recompute;

  BertModel(const BertOptions& options, Rng& rng);
  /// Hidden states (B, T, D). `attention`, if given, receives the weights of every layer.
  Tensor operator()(const BertInput& input, std::vector<Tensor>* attention = nullptr) const;
  /// (B, T, D) -> (B, D).
  Tensor pooled(const Tensor& hidden) const;
  static void fields(auto& m, auto&& visit) {
    visit("embeddings", m.embeddings);
    visit("embeddings_project", m.projection);
    visit("encoder.layer", m.layers);
    visit("encoder.relative_attention_bias", m.relative_attention);
    visit("pooler.dense", m.pooler);
  }

 private:
  Tensor position_bias(int64_t tokens) const;
};

/// The head for masked words, apart from the embedding table.
struct BertPredictions {
  nn::Linear transform;
  nn::LayerNorm norm;
  nn::Parameter bias;
  Activation activation;

  BertPredictions(const BertOptions& options, Rng& rng);
  /// hidden (..., D) -> logits (..., V).
  Tensor operator()(const Tensor& hidden, const Tensor& words) const;
  /// cross_entropy of these logits and targets i64 (...), without storing all logits.
  Tensor loss(const Tensor& hidden, const Tensor& words, const Tensor& targets) const;
  static void fields(auto& m, auto&& visit) {
    visit("bias", m.bias);
    visit("transform.dense", m.transform);
    visit("transform.LayerNorm", m.norm);
  }

 private:
  Tensor transformed(const Tensor& hidden) const;
};

/// Matrices and tables start in N(0, 0.02^2), biases at 0.
struct Bert {
  BertOptions options;
  BertModel bert;
  std::optional<BertPredictions> predictions;
  std::optional<nn::Linear> seq_relationship, classifier;
  nn::Dropout dropout;  ///< before the classifier

  Bert(const BertOptions& options, Rng& rng);

  /// Logits of the heads; undefined without the head.
  struct Output {
    Tensor words;    ///< (B, T, V)
    Tensor next;     ///< (B, 2)
    Tensor classes;  ///< (B, classes), or (B, T, classes) of tokens
  };
  Output operator()(const BertInput& input) const { return heads(bert(input)); }
  /// The same from the hidden states (B, T, D) of `bert`.
  Output heads(const Tensor& hidden) const;
  /// Logits (..., V) of words from selected hidden states (..., D).
  Tensor words(const Tensor& hidden) const;
  /// Weights of every layer, (B, H, T, T) each: row t has the weights of token t's query.
  [[nodiscard]] std::vector<Tensor> attend(const BertInput& input) const;

  static void fields(auto& m, auto&& visit) {
    visit("bert", m.bert);
    visit("cls.predictions", m.predictions);
    if (m.predictions) {
      visit("cls.predictions.decoder.weight", m.bert.embeddings.word_embeddings.weight);
      visit("cls.predictions.decoder.bias", m.predictions->bias);
    }
    visit("cls.seq_relationship", m.seq_relationship);
    visit("dropout", m.dropout);
    visit("classifier", m.classifier);
  }
};

// ---- Pre-training ------------------------------------------------------------------------------

/// All i64.
struct BertTargets {
  Tensor places;     ///< (K), each b T + t: which tokens to predict
  Tensor words;      ///< (K): the original words
  Tensor next = {};  ///< (B): 0 or 1; undefined: not predicted
};
struct BertLoss {
  Tensor total;   ///< their sum
  Tensor masked;  ///< mean cross entropy of the masked words
  Tensor next;    ///< mean cross entropy of the next-sentence targets; undefined without them
};
/// Logits (K, V) of the words at these places.
Tensor words_at(const Bert& model, const Tensor& hidden, const Tensor& places);
/// Error: the model lacks a head for these targets.
BertLoss pretraining_loss(const Bert& model, const BertInput& input, const BertTargets& targets);

// ---- Filling masks -----------------------------------------------------------------------------

struct BertGuess {
  int64_t token;
  double probability;  ///< among all words
};
struct BertFilled {
  int64_t position;                ///< position of the mask in the tokens
  std::vector<BertGuess> guesses;  ///< most probable first
};
/// Predicts the token at each `mask` of a sentence with [CLS] and [SEP], with `guesses` guesses
/// each. Runs in evaluation, without gradients; several threads may share a model that is in
/// evaluation. Empty if there is no mask.
std::vector<BertFilled> fill_mask(const Bert& model, std::span<const int64_t> tokens, int64_t mask,
                                  int64_t guesses = 5);

// ---- Files of transformers ---------------------------------------------------------------------

/// What the weights do not show. What is not given comes from config.json in the file's folder.
/// Without that file `heads` is required, and the others are BertOptions'. Dropouts may differ from
/// config.json's; the others must agree with it.
struct BertFileOptions {
  std::optional<int64_t> heads = {};  ///< of attention
  std::optional<double> dropout = {}, attention_dropout = {}, classifier_dropout = {};
  std::optional<Activation> activation = {};
  std::optional<double> eps = {};
  std::optional<int64_t> pad = {}, position_offset = {};
  bool classes_of_tokens = false;  ///< also if neither the weights nor config.json show it
  nn::Recompute recompute = nn::Recompute::none;
};

/// What load_bert() found and did not use.
struct BertFileReport {
  std::vector<std::string> unused;   ///< weights of heads that the model does not have
  std::vector<std::string> unknown;  ///< members of config.json that tern does not know
};

/// Loads a model from a file of transformers' BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT,
/// ELECTRA or MPNet: the model alone, or with the heads of ...ForPreTraining (BERT), ForMaskedLM,
/// ForSequenceClassification or ForTokenClassification.
///
/// Sizes and heads on top come from the file, the rest from config.json and `rest`. The model is in
/// evaluation mode; nn::set_training(model) before you train it.
///
/// IoError: not such a file; another head; no config.json, and no rest.heads; a config.json that
/// does not fit the weights or `rest`, or has members that tern does not know and there is no
/// `report` to list them.
Bert load_bert(const std::string& path, Rng& rng, const BertFileOptions& rest = {},
               BertFileReport* report = nullptr);

/// The same without heads, from a file with any heads.
Bert load_bert_encoder(const std::string& path, Rng& rng, const BertFileOptions& rest = {},
                       BertFileReport* report = nullptr);

/// Loads weights into an existing model. Accepts the names above, those of the models that
/// load_bert() takes, and those of older files (gamma, beta, position_ids; without "bert.").
/// Weights of heads that the model lacks are ignored and reported as unexpected. All else as
/// nn::load_weights. IoError also if the decoder is not the embedding table.
LoadStateReport load_bert_weights(const std::string& path, Bert& model,
                                  const LoadStateOptions& options = {});

}  // namespace tern::models
