// The Transformer for translation: embeddings with sinusoidal positions, generator, and single
// steps for decoding. The layers are in nn/transformer.h.
#include "tern/models/transformer.h"

#include <cmath>
#include <utility>

#include "tern/models/parts.h"

namespace tern::models {
namespace {

const std::vector<std::pair<std::string, TransformerOptions>>& known_transformers() {
  static const std::vector<std::pair<std::string, TransformerOptions>> kConfigurations = {
      {"base", {}},
      {"multi30k",
       {.encoder_layers = 3, .decoder_layers = 3, .layer = {.dim = 256, .heads = 8, .ffn = 512}}},
      {"d2l",
       {.encoder_layers = 2,
        .decoder_layers = 2,
        .layer = {.dim = 256, .heads = 4, .ffn = 64, .dropout = 0.2},
        .final_norm = false}},
  };
  return kConfigurations;
}

nn::Mask source_mask(const Tensor& lengths) {
  return lengths.defined() ? nn::Mask::lengths(lengths) : nn::Mask();
}

void check_tokens(const char* what, const Tensor& tokens) {
  check(tokens.ndim() == 2 && tokens.dtype() == DType::i64,
        "Transformer: the {} is i64 (B, tokens), got {} {}", what, tokens.dtype(), tokens.shape());
}

void check_source(const Tensor& source, const Tensor& lengths) {
  check_tokens("source", source);
  check(!lengths.defined() ||
            (lengths.dtype() == DType::i64 && lengths.shape() == Shape{source.size(0)}),
        "Transformer: lengths are i64 ({},), got {} {}", source.size(0),
        lengths.defined() ? lengths.dtype() : DType::i64,
        lengths.defined() ? lengths.shape() : Shape());
}

/// Returns the options if a model can be made of them.
const TransformerOptions& checked(const TransformerOptions& o) {
  check_vocabularies("Transformer", o.source_vocab, o.target_vocab);
  check(!o.tie_source_target || o.source_vocab == o.target_vocab,
        "Transformer: tie_source_target needs equal vocabularies, got {} and {} words",
        o.source_vocab, o.target_vocab);
  return o;
}

}  // namespace

TransformerOptions transformer_options(const std::string& name) {
  return options_named("transformer", name, known_transformers());
}

std::vector<std::string> transformer_names() { return names_of(known_transformers()); }

TransformerState TransformerState::select_rows(const Tensor& rows) const {
  TransformerState out{
      {}, lengths.defined() ? index_select(lengths, 0, rows) : lengths, position, rows.numel()};
  for (const nn::DecoderLayerState& layer : layers) out.layers.push_back(layer.select_rows(rows));
  return out;
}

TransformerStacks::TransformerStacks(const TransformerOptions& o, Rng& rng)
    : encoder(o.encoder_layers, o.layer, rng,
              o.final_norm ? nn::FinalNorm::yes : nn::FinalNorm::no),
      decoder(o.decoder_layers, o.layer, rng,
              o.final_norm ? nn::FinalNorm::yes : nn::FinalNorm::no) {
  for (const Tensor& p : nn::parameters(*this))
    if (p.ndim() > 1) nn::init::xavier_uniform(p, rng);
}

Transformer::Transformer(const TransformerOptions& o, Rng& rng)
    : options(checked(o)),
      src_embed(o.source_vocab, o.layer.dim, rng),
      transformer(o, rng),
      generator_bias(zeros(o.target_vocab)),
      dropout(o.embed_dropout.value_or(o.layer.dropout), rng) {
  const int64_t dim = o.layer.dim;
  const double std = 1 / std::sqrt(static_cast<double>(dim));
  src_embed.weight = normal_parameter({o.source_vocab, dim}, std, rng);
  if (!o.tie_source_target) target_table = normal_parameter({o.target_vocab, dim}, std, rng);
  if (o.tie_target_generator) return;
  generator_weight = nn::Parameter(empty({o.target_vocab, dim}));
  nn::init::xavier_uniform(generator_weight, rng);
}

const Tensor& Transformer::target_weight() const {
  return options.tie_source_target ? src_embed.weight : target_table;
}

Tensor Transformer::embedded(const Tensor& tokens, const Tensor& weight, int64_t position) const {
  const int64_t dim = options.layer.dim;
  Tensor x = embedding(tokens, weight) * std::sqrt(static_cast<double>(dim));
  return dropout(x +
                 nn::sinusoidal_positions(tokens.size(1), dim, {.offset = position}, x.dtype()));
}

const Tensor& Transformer::generator_matrix() const {
  return options.tie_target_generator ? target_weight() : generator_weight.tensor();
}

Tensor Transformer::logits(const Tensor& y) const {
  return linear(y, generator_matrix(), generator_bias);
}

// The decoder's result (B, T, D).
Tensor Transformer::run(const Tensor& source, const Tensor& lengths, const Tensor& target,
                        TransformerAttention* attention) const {
  check_source(source, lengths);
  check_tokens("target", target);
  check(source.size(0) == target.size(0),
        "Transformer: got {} source sentences, but {} target sentences", source.size(0),
        target.size(0));
  const nn::Mask mask = source_mask(lengths);
  Tensor memory = transformer.encoder(embedded(source, src_embed.weight), mask,
                                      attention ? &attention->encoder : nullptr);
  nn::TransformerDecoder::Weights weights;
  Tensor y = transformer.decoder(embedded(target, target_weight()), memory, nn::Mask::causal(),
                                 mask, attention ? &weights : nullptr);
  for (const auto& layer : weights) {
    attention->decoder.push_back(layer.self);
    attention->cross.push_back(layer.memory);
  }
  return y;
}

Tensor Transformer::operator()(const Tensor& source, const Tensor& lengths,
                               const Tensor& target) const {
  return logits(run(source, lengths, target, nullptr));
}

Tensor Transformer::loss(const Tensor& source, const Tensor& lengths, const Tensor& target,
                         const Tensor& labels, const CrossEntropyOptions& o) const {
  return linear_cross_entropy(run(source, lengths, target, nullptr), generator_matrix(),
                              generator_bias, labels, o);
}

Transformer::Output Transformer::attend(const Tensor& source, const Tensor& lengths,
                                        const Tensor& target) const {
  TransformerAttention attention;
  Tensor y = logits(run(source, lengths, target, &attention));
  return {y, std::move(attention)};
}

TransformerState Transformer::encode(const Tensor& source, const Tensor& lengths) const {
  check_source(source, lengths);
  Tensor memory = transformer.encoder(embedded(source, src_embed.weight), source_mask(lengths));
  return {transformer.decoder.start(memory), lengths, 0, source.size(0)};
}

Transformer::Step Transformer::step(const TransformerState& before, const Tensor& tokens) const {
  check(tokens.ndim() == 1 && tokens.dtype() == DType::i64,
        "Transformer: a step takes one token per sentence, i64 (B), got {} {}", tokens.dtype(),
        tokens.shape());
  check(before.sentences == tokens.size(0),
        "Transformer: the state has {} sentences, but there are {} tokens", before.sentences,
        tokens.size(0));
  Step next{{}, before};
  Tensor x = embedded(unsqueeze(tokens, 1), target_weight(), before.position);
  Tensor y = transformer.decoder.step(x, next.state.layers, source_mask(before.lengths));
  next.logits = logits(squeeze(y, 1));
  ++next.state.position;
  return next;
}

}  // namespace tern::models
