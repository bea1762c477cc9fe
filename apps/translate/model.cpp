// Makes the three kinds of models, and computes their logits, loss and attention.
#include "tern/apps/translate/model.h"

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/module.h"

namespace tern::apps::translate {
namespace {

constexpr int64_t kMoreTokens = 6;  // constant part of the length limit, <eos> included

models::TransformerOptions transformer_options(const ModelConfig& c, const std::string& recompute) {
  models::TransformerOptions o;
  o.source_vocab = c.source_vocab;
  o.target_vocab = c.target_vocab;
  o.encoder_layers = o.decoder_layers = c.layers;
  o.layer = {.dim = c.dim,
             .heads = c.heads,
             .ffn = c.ffn,
             .dropout = c.dropout,
             .norm_first = c.norm_first,
             .recompute = nn::recompute_named(recompute)};
  o.tie_source_target = c.tie == "all";
  o.tie_target_generator = c.tie != "none";
  o.final_norm = c.final_norm || c.norm_first;  // pre-norm stacks need a final norm
  return o;
}

models::BahdanauOptions bahdanau_options(const ModelConfig& c) {
  models::BahdanauOptions o{.source_vocab = c.source_vocab,
                            .target_vocab = c.target_vocab,
                            .embed = c.dim,
                            .hidden = c.hidden,
                            .dropout = c.dropout};
  if (c.form == "d2l") {
    o.form = models::BahdanauForm::d2l;
    o.layers = c.layers;
    o.dropout = 0;
    o.layer_dropout = o.attention_dropout = c.dropout;
  }
  return o;
}

TranslationModel::Network make_model(const ModelConfig& c, const std::string& recompute, Rng rng) {
  if (c.model == "transformer") return models::Transformer(transformer_options(c, recompute), rng);
  if (c.model == "bahdanau") return models::Bahdanau(bahdanau_options(c), rng);
  check(c.model == "seq2seq", "there is no model '{}'", c.model);
  return models::LstmSeq2Seq({.source_vocab = c.source_vocab,
                              .target_vocab = c.target_vocab,
                              .embed = c.dim,
                              .hidden = c.hidden,
                              .layers = c.layers,
                              .dropout = c.dropout,
                              .reverse_source = c.reverse_source},
                             rng);
}

std::vector<int64_t> with_end(std::vector<int64_t> tokens) {
  tokens.push_back(datasets::kEndId);
  return tokens;
}

Tensor row(const std::vector<int64_t>& tokens) { return tensor(tokens, {1, std::ssize(tokens)}); }

}  // namespace

TranslationModel::TranslationModel(const ModelConfig& config, uint64_t seed,
                                   const std::string& recompute)
    : config_(config), model_(make_model(config, recompute, Rng(seed))) {}

Tensor TranslationModel::logits(const datasets::PairBatch& b) const {
  return std::visit(
      [&](const auto& model) { return model(b.source, b.source_lengths, b.target_in); }, model_);
}

Tensor TranslationModel::loss(const datasets::PairBatch& b,
                              const CrossEntropyOptions& options) const {
  return std::visit(
      [&](const auto& model) {
        return model.loss(b.source, b.source_lengths, b.target_in, b.target_out, options);
      },
      model_);
}

void TranslationModel::attend(const std::vector<int64_t>& source,
                              const std::vector<int64_t>& target, const TakeAttention& take) const {
  NoGradGuard no_grad;
  std::vector<int64_t> said = target;
  said.insert(said.begin(), datasets::kBeginId);
  const Tensor x = row(with_end(source)), y = row(said);
  const auto give = [&](const char* kind, const std::vector<Tensor>& layers) {
    for (size_t i = 0; i < layers.size(); ++i)  // weights (1, ...)
      take(kind, static_cast<int64_t>(i) + 1, layers[i][0]);
  };
  if (auto* m = std::get_if<models::Bahdanau>(&model_))
    give("Alignment", {m->align(x, {}, y).alignments});
  if (auto* m = std::get_if<models::Transformer>(&model_)) {
    const models::TransformerAttention a = m->attend(x, {}, y).attention;
    give("Encoder", a.encoder);
    give("Decoder", a.decoder);
    give("Cross attention", a.cross);
  }
}

int64_t TranslationModel::longest_translation(int64_t source) const {
  return static_cast<int64_t>(config_.length_ratio * static_cast<double>(source)) + kMoreTokens;
}

}  // namespace tern::apps::translate
