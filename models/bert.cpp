// BERT's layers and heads, named sizes, the pre-training loss at masked places, and filling of
// masks. Files: bert_load.cpp.
#include "tern/models/bert.h"

#include <cmath>

#include "tern/core/ops/attention/heads.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/parts.h"

namespace tern::models {
namespace {

constexpr double kInitialStd = 0.02;

/// Returns the options if a model can be made of them.
const BertOptions& checked(const BertOptions& o) {
  check(o.vocab > 0 && o.dim > 0 && o.ffn > 0 && o.layers >= 0 && o.positions > 0,
        "Bert: vocab {}, dim {}, ffn {}, layers {}, positions {}; all must be positive", o.vocab,
        o.dim, o.ffn, o.layers, o.positions);
  check(o.segments >= 0 && o.position_offset >= 0 && o.embedding_dim >= 0,
        "Bert: segments {}, position_offset {}, embedding_dim {}; none may be negative", o.segments,
        o.position_offset, o.embedding_dim);
  check(o.relative_buckets == 0 || (o.relative_buckets >= 4 && o.relative_buckets % 4 == 0),
        "Bert: relative_buckets must be a multiple of 4, got {}", o.relative_buckets);
  detail::check_heads("Bert", o.dim, o.heads);
  check(o.classes >= 0,
        "Bert: the number of classes must not be negative, got {}; 0 means no classifier",
        o.classes);
  return o;
}

bool has_pooler(const BertOptions& o) {
  return o.next_sentence || (o.classes > 0 && !o.classes_of_tokens);
}

/// Channels of the tables.
int64_t width(const BertOptions& o) { return o.embedding_dim ? o.embedding_dim : o.dim; }

nn::LayerNorm norm_of(const BertOptions& o, int64_t dim) {
  return nn::LayerNorm(dim, {.eps = o.eps});
}

void initialise(const Bert& model, Rng& rng) {
  for (const auto& [name, p] : nn::named_parameters(model)) {
    if (p.ndim() > 1) nn::init::normal(p, 0, kInitialStd, rng);
    if (p.ndim() == 1 && name.ends_with("bias")) nn::init::constant(p, 0);
  }
  NoGradGuard no_grad;
  if (model.options.pad >= 0)
    zero_(select(model.bert.embeddings.word_embeddings.weight, 0, model.options.pad));
}

void check_input(const BertInput& input, const BertEmbeddings& embeddings) {
  const Tensor &tokens = input.tokens, &segments = input.segments;
  const int64_t positions = embeddings.positions();
  check(tokens.defined() && tokens.ndim() == 2 && tokens.dtype() == DType::i64,
        "Bert: tokens are i64 (B, T), got {} {}", tokens.defined() ? tokens.dtype() : DType::i64,
        tokens.defined() ? tokens.shape() : Shape());
  check(tokens.size(1) >= 1 && tokens.size(1) <= positions,
        "Bert: {} tokens, but a sequence has 1 to {}; cut it into pieces", tokens.size(1),
        positions);
  check(!segments.defined() || embeddings.token_type_embeddings,
        "Bert: the model has no segments, but some are given");
  check(
      !segments.defined() || (segments.dtype() == DType::i64 && segments.shape() == tokens.shape()),
      "Bert: segments must be i64 {}, like the tokens, got {} {}", tokens.shape(),
      segments.defined() ? segments.dtype() : DType::i64,
      segments.defined() ? segments.shape() : Shape());
}

}  // namespace

const std::vector<std::pair<std::string, BertOptions>>& bert_configurations() {
  static const std::vector<std::pair<std::string, BertOptions>> kConfigurations = {
      {"base", {}},
      {"large", {.dim = 1024, .layers = 24, .heads = 16, .ffn = 4096}},
      {"medium", {.dim = 512, .layers = 8, .heads = 8, .ffn = 2048}},
      {"small", {.dim = 512, .layers = 4, .heads = 8, .ffn = 2048}},
      {"mini", {.dim = 256, .layers = 4, .heads = 4, .ffn = 1024}},
      {"tiny", {.dim = 128, .layers = 2, .heads = 2, .ffn = 512}},
  };
  return kConfigurations;
}

BertOptions bert_options(const std::string& name) {
  return options_named("bert", name, bert_configurations());
}

std::vector<std::string> bert_names() { return names_of(bert_configurations()); }

int64_t bert_weights(const BertOptions& o) {
  Rng rng(0);
  return nn::num_parameters(nn::unfilled([&] { return Bert(o, rng); }));
}

BertEmbeddings::BertEmbeddings(const BertOptions& o, Rng& rng)
    : word_embeddings(o.vocab, width(o), rng,
                      {.padding_idx = o.pad < 0 ? std::nullopt : std::optional(o.pad)}),
      position_embeddings(o.position_offset + o.positions, width(o), rng),
      token_type_embeddings(o.segments ? std::optional<nn::Embedding>({o.segments, width(o), rng})
                                       : std::nullopt),
      position_offset(o.position_offset),
      norm(norm_of(o, width(o))),
      dropout(o.dropout, rng) {}

Tensor BertEmbeddings::operator()(const Tensor& tokens, const Tensor& segments) const {
  Tensor x = word_embeddings(tokens);
  if (token_type_embeddings)
    x = x + (segments.defined() ? (*token_type_embeddings)(segments)
                                : narrow(token_type_embeddings->weight, 0, 0, 1));
  return dropout(norm(x + narrow(position_embeddings.weight, 0, position_offset, tokens.size(1))));
}

BertSelfAttention::BertSelfAttention(const BertOptions& o, Rng& rng)
    : query(o.dim, o.dim, rng),
      key(o.dim, o.dim, rng),
      value(o.dim, o.dim, rng),
      dropout(o.attention_dropout, rng),
      heads(o.heads) {}

Tensor BertSelfAttention::operator()(const Tensor& x, const nn::Mask& mask, Tensor* weights) const {
  const AttentionOptions options{
      .mask = mask.parts(), .scale = {}, .dropout = dropout.rate(), .rng = &dropout.rng};
  using detail::split_heads;
  const Tensor q = split_heads(query(x), heads), k = split_heads(key(x), heads),
               v = split_heads(value(x), heads);
  return detail::join_heads(attend_heads(q, k, v, options, weights));
}

BertAddNorm::BertAddNorm(int64_t in, const BertOptions& o, Rng& rng)
    : dense(in, o.dim, rng), norm(norm_of(o, o.dim)), dropout(o.dropout, rng) {}

Tensor BertAddNorm::operator()(const Tensor& h, const Tensor& x) const {
  if (dropout.rate() == 0) return norm(dense(h, {.residual = x}));
  return norm.of_sum(dense(h), x, dropout);
}

BertLayer::BertLayer(const BertOptions& o, Rng& rng)
    : attention(o, rng),
      attention_output(o.dim, o, rng),
      intermediate(o.dim, o.ffn, rng),
      output(o.ffn, o, rng),
      activation(o.activation) {}

Tensor BertLayer::operator()(const Tensor& x, const nn::Mask& mask, Tensor* weights) const {
  Tensor y = attention_output(attention(x, mask, weights), x);
  return output(intermediate(y, {.activation = activation}), y);
}

BertModel::BertModel(const BertOptions& o, Rng& rng)
    : embeddings(o, rng), pooler_activation(o.pooler_activation), recompute(o.recompute) {
  if (width(o) != o.dim) projection.emplace(width(o), o.dim, rng);
  layers.reserve(static_cast<size_t>(o.layers));
  for (int64_t i = 0; i < o.layers; ++i) layers.emplace_back(o, rng);
  if (o.relative_buckets > 0) relative_attention.emplace(o.relative_buckets, o.heads, rng);
  if (has_pooler(o)) pooler.emplace(o.dim, o.dim, rng);
}

Tensor BertModel::operator()(const BertInput& input, std::vector<Tensor>* attention) const {
  check_input(input, embeddings);
  Tensor x = embeddings(input.tokens, input.segments);
  if (projection) x = (*projection)(x);
  std::vector<Tensor> inputs = {x};  // of a layer, with the bias: both get gradients
  if (relative_attention) inputs.push_back(position_bias(input.tokens.size(1)));
  if (attention) attention->assign(layers.size(), {});
  for (size_t i = 0; i < layers.size(); ++i) {
    Tensor* weights = attention ? &(*attention)[i] : nullptr;
    auto layer = [&layer = layers[i], mask = input.mask, weights](std::span<const Tensor> in) {
      return layer(in[0], in.size() == 1 ? mask : mask & nn::Mask::bias(in[1]), weights);
    };
    inputs[0] = x;
    x = weights ? layer(inputs) : nn::recomputed(recompute, inputs, layer);
  }
  return x;
}

// As T5 (Raffel et al. 2020): half of the buckets for keys behind the query. Of each half, one half
// counts distances, and the other grows with the logarithm up to a distance of 128.
Tensor BertModel::position_bias(int64_t tokens) const {
  constexpr float kFarthest = 128;
  const int64_t half = relative_attention->weight.size(0) / 2, exact = half / 2;
  std::vector<int64_t> bucket(static_cast<size_t>(2 * tokens - 1));  // by query - key + tokens - 1
  for (int64_t i = 0; i < std::ssize(bucket); ++i) {
    const int64_t distance = std::abs(i - tokens + 1);
    const float far =
        std::log(static_cast<float>(std::max(distance, exact)) / static_cast<float>(exact)) /
        std::log(kFarthest / static_cast<float>(exact));
    const auto steps = static_cast<int64_t>(far * static_cast<float>(half - exact));
    bucket[i] = (i < tokens - 1 ? half : 0) +
                (distance < exact ? distance : std::min(exact + steps, half - 1));
  }
  std::vector<int64_t> index;
  for (int64_t query = 0; query < tokens; ++query)
    for (int64_t key = 0; key < tokens; ++key) index.push_back(bucket[query - key + tokens - 1]);
  const Tensor bias = (*relative_attention)(tensor(index, {tokens, tokens}));  // (T, T, H)
  return unsqueeze(permute(bias, {2, 0, 1}), 0);
}

Tensor BertModel::pooled(const Tensor& hidden) const {
  check(pooler.has_value(),
        "Bert: the model has no pooler, because it was made without next_sentence and classes");
  return (*pooler)(select(hidden, 1, 0), {.activation = pooler_activation});
}

BertPredictions::BertPredictions(const BertOptions& o, Rng& rng)
    : transform(o.dim, width(o), rng),
      norm(norm_of(o, width(o))),
      bias(zeros({o.vocab})),
      activation(o.activation) {}

Tensor BertPredictions::operator()(const Tensor& hidden, const Tensor& words) const {
  return linear(transformed(hidden), words, bias);
}

Tensor BertPredictions::loss(const Tensor& hidden, const Tensor& words,
                             const Tensor& targets) const {
  return linear_cross_entropy(transformed(hidden), words, bias, targets);
}

Tensor BertPredictions::transformed(const Tensor& hidden) const {
  return norm(transform(hidden, {.activation = activation}));
}

Bert::Bert(const BertOptions& o, Rng& rng)
    : options(checked(o)), bert(o, rng), dropout(o.classifier_dropout.value_or(o.dropout), rng) {
  if (o.masked_lm) predictions.emplace(o, rng);
  if (o.next_sentence) seq_relationship.emplace(o.dim, 2, rng);
  if (o.classes > 0) classifier.emplace(o.dim, o.classes, rng);
  initialise(*this, rng);
}

Tensor Bert::words(const Tensor& hidden) const {
  check(predictions.has_value(), "Bert: the model has no head for masked words (masked_lm)");
  return (*predictions)(hidden, bert.embeddings.word_embeddings.weight);
}

Bert::Output Bert::heads(const Tensor& hidden) const {
  Output y;
  if (predictions) y.words = words(hidden);
  const Tensor pooled = bert.pooler ? bert.pooled(hidden) : Tensor();
  if (seq_relationship) y.next = (*seq_relationship)(pooled);
  if (classifier) y.classes = (*classifier)(dropout(options.classes_of_tokens ? hidden : pooled));
  return y;
}

std::vector<Tensor> Bert::attend(const BertInput& input) const {
  std::vector<Tensor> attention;
  static_cast<void>(bert(input, &attention));
  return attention;
}

namespace {

Tensor hidden_at(const Tensor& hidden, const Tensor& places) {
  return index_select(flatten(hidden, 0, 1), 0, places);
}

}  // namespace

Tensor words_at(const Bert& model, const Tensor& hidden, const Tensor& places) {
  return model.words(hidden_at(hidden, places));
}

BertLoss pretraining_loss(const Bert& model, const BertInput& input, const BertTargets& targets) {
  check(!targets.next.defined() || model.seq_relationship,
        "pretraining_loss: the model has no head for the next sentence (next_sentence)");
  check(model.predictions.has_value(), "Bert: the model has no head for masked words (masked_lm)");
  const Tensor hidden = model.bert(input);
  BertLoss loss;
  loss.masked =
      model.predictions->loss(hidden_at(hidden, targets.places),
                              model.bert.embeddings.word_embeddings.weight, targets.words);
  loss.total = loss.masked;
  if (!targets.next.defined()) return loss;
  loss.next = cross_entropy((*model.seq_relationship)(model.bert.pooled(hidden)), targets.next);
  loss.total = loss.masked + loss.next;
  return loss;
}

std::vector<BertFilled> fill_mask(const Bert& model, std::span<const int64_t> tokens, int64_t mask,
                                  int64_t guesses) {
  check(guesses >= 1, "fill_mask: needs at least 1 guess, got {}", guesses);
  std::vector<BertFilled> out;
  std::vector<int64_t> places;
  for (int64_t t = 0; t < std::ssize(tokens); ++t)
    if (tokens[t] == mask) places.push_back(t);
  if (places.empty()) return out;
  NoGradGuard no_grad;
  nn::EvalScope evaluating(model);
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  const Tensor hidden = model.bert({.tokens = tensor(ids, {1, std::ssize(ids)})});
  const Tensor logits = words_at(model, hidden, tensor(places, {std::ssize(places)}));
  const int64_t k = std::min(guesses, logits.size(-1));
  const ValuesIndices best = topk(softmax(logits, -1), k);
  const auto values = best.values.to_vector<double>();
  const auto indices = best.indices.to_vector<int64_t>();
  for (size_t i = 0; i < places.size(); ++i) {
    out.push_back({places[i], {}});
    for (size_t j = i * static_cast<size_t>(k); j < (i + 1) * static_cast<size_t>(k); ++j)
      out.back().guesses.push_back({indices[j], values[j]});
  }
  return out;
}

}  // namespace tern::models
