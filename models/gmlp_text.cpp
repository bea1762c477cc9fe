// gMLP and aMLP for text: embeddings and blocks, steps for decoding, and the heads for the next
// word, masked words and classes.
#include "tern/models/gmlp_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tern/models/parts.h"

namespace tern::models {
namespace {

const std::vector<std::pair<std::string, GmlpTextOptions>>& known_gmlps() {
  static const nn::SpatialGatingOptions kToeplitz = {.matrix = nn::SpatialMatrix::toeplitz};
  static const std::vector<std::pair<std::string, GmlpTextOptions>> kConfigurations = {
      {"small", {.context = 128, .dim = 128, .layers = 4}},
      {"base", {.gate = kToeplitz}},
      {"large", {.dim = 768, .layers = 96, .d_ffn = 3072, .gate = kToeplitz}},
      {"xlarge", {.dim = 1024, .layers = 144, .d_ffn = 4096, .gate = kToeplitz}},
      {"amlp-base", {.layers = 36, .attention_dim = 64, .gate = kToeplitz}},
      {"amlp-large",
       {.dim = 768, .layers = 72, .d_ffn = 3072, .attention_dim = 128, .gate = kToeplitz}},
  };
  return kConfigurations;
}

/// Returns the options if a model can be made of them.
const GmlpTextOptions& checked(const GmlpTextOptions& o) {
  check(o.vocab > 0 && o.context > 0 && o.dim > 0 && o.layers >= 0 && o.d_ffn >= 0,
        "GmlpText: vocab {}, context {}, dim {}, layers {}, d_ffn {}; the first three must be "
        "positive, the others not negative",
        o.vocab, o.context, o.dim, o.layers, o.d_ffn);
  return o;
}

GmlpBlockOptions block_of(const GmlpTextOptions& o) {
  GmlpBlockOptions block{.dim = o.dim,
                         .d_ffn = o.d_ffn ? o.d_ffn : 6 * o.dim,
                         .drop_path = o.drop_path,
                         .attention_dim = o.attention_dim,
                         .gate = o.gate};
  block.gate.shorter = true;
  block.gate.weight_bound = o.gate.weight_bound.value_or(1e-6);
  return block;
}

GmlpTextOptions causal(GmlpTextOptions o) {
  o.gate.causal = true;
  return o;
}

void check_tokens(const Tensor& tokens, int64_t before, int64_t context) {
  check(tokens.ndim() == 2 && tokens.dtype() == DType::i64 && tokens.size(1) > 0,
        "GmlpText: needs tokens i64 (B, T >= 1), got {} {}", tokens.dtype(), tokens.shape());
  check(before + tokens.size(1) <= context,
        "GmlpText: {} tokens of a context of {} were read, so {} more do not fit; make .context "
        "larger, or encode the last tokens again",
        before, context, tokens.size(1));
}

/// Checks lengths (B) in [least, T].
void check_lengths(const Tensor& lengths, const Tensor& tokens, int64_t least) {
  const int64_t batch = tokens.size(0), longest = tokens.size(1);
  check(lengths.dtype() == DType::i64 && lengths.shape() == Shape{batch},
        "GmlpText: lengths are i64 ({},), got {} {}", batch, lengths.dtype(), lengths.shape());
  for (int64_t length : lengths.to_vector<int64_t>())
    check(length >= least && length <= longest, "GmlpText: a length is {}, outside [{}, {}]",
          length, least, longest);
}

/// u8 (B, T): not 0 before the length of each row.
Tensor before(const Tensor& lengths, int64_t tokens) {
  return lt(arange(0, tokens), unsqueeze(lengths, 1));
}

}  // namespace

GmlpTextOptions gmlp_text_options(const std::string& name) {
  return options_named("gmlp_text", name, known_gmlps());
}

std::vector<std::string> gmlp_text_names() { return names_of(known_gmlps()); }

int64_t gmlp_text_weights(const GmlpTextOptions& o) {
  checked(o);
  return o.vocab * o.dim * (o.tie_head ? 1 : 2) + (o.positions ? o.context * o.dim : 0) +
         o.layers * gmlp_block_weights(block_of(o), o.context) + 2 * o.dim;
}

GmlpTextState GmlpTextState::select_rows(const Tensor& rows) const {
  GmlpTextState out{{}, rows.size(0), position};
  for (const GmlpBlockCache& block : blocks) out.blocks.push_back(block.select_rows(rows));
  return out;
}

GmlpText::GmlpText(const GmlpTextOptions& o, Rng& rng)
    : options(checked(o)),
      embed(o.vocab, o.dim, rng),
      dropout(o.dropout, rng),
      blocks(gmlp_blocks(o.layers, block_of(o), o.context, rng)),
      norm(o.dim) {
  nn::init::normal(embed.weight, 0, 0.02, rng);
  if (o.positions) positions.emplace(o.context, o.dim, rng);
}

Tensor GmlpText::operator()(const Tensor& tokens, const Tensor& lengths) const {
  check_tokens(tokens, 0, options.context);
  Tensor x = embed(tokens), real;
  if (lengths.defined()) {
    check_lengths(lengths, tokens, 0);
    real = before(lengths, tokens.size(1));
  }
  if (positions) x = (*positions)(x);
  x = dropout(x);
  for (const GmlpBlock& block : blocks)
    x = nn::recomputed(options.recompute, {x},
                       [&block, real](std::span<const Tensor> in) { return block(in[0], real); });
  return norm(x);
}

Tensor GmlpText::step(const Tensor& tokens, GmlpTextState& state) const {
  check_tokens(tokens, state.position, options.context);
  check(std::ssize(state.blocks) == options.layers && tokens.size(0) == state.texts,
        "GmlpText: the state has {} texts and {} blocks, but there are {} texts and {} blocks",
        state.texts, state.blocks.size(), tokens.size(0), options.layers);
  Tensor x = embed(tokens);
  if (positions) x = (*positions)(x, state.position);
  x = dropout(x);
  for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i].step(x, state.blocks[i]);
  state.position += tokens.size(1);
  return norm(x);
}

std::string GmlpText::summary() const {
  return fmt::format("{} {}blocks on up to {} tokens of {} channels", options.layers,
                     options.gate.causal ? "causal " : "", options.context, options.dim);
}

Heatmaps GmlpText::heatmaps(const Tensor&) const {
  return spatial_heatmaps(blocks, "The tokens are those of a text, in order.");
}

GmlpLanguageModel::GmlpLanguageModel(const GmlpTextOptions& o, Rng& rng) : model(causal(o), rng) {
  if (!o.tie_head) head = normal_parameter({o.vocab, o.dim}, 0.02, rng);
}

Tensor GmlpLanguageModel::operator()(const Tensor& tokens) const { return logits(model(tokens)); }

Tensor GmlpLanguageModel::logits(const Tensor& x) const { return linear(x, head_matrix()); }

Tensor GmlpLanguageModel::loss(const Tensor& tokens, const Tensor& labels,
                               const CrossEntropyOptions& o) const {
  return linear_cross_entropy(model(tokens), head_matrix(), {}, labels, o);
}

GmlpTextState GmlpLanguageModel::encode(const Tensor& tokens) const {
  check(tokens.ndim() == 2, "GmlpLanguageModel: needs tokens (B, T), got {}", tokens.shape());
  GmlpTextState state{std::vector<GmlpBlockCache>(model.blocks.size()), tokens.size(0), 0};
  if (tokens.size(1) > 0) static_cast<void>(model.step(tokens, state));
  return state;
}

GmlpLanguageModel::Step GmlpLanguageModel::step(const GmlpTextState& state,
                                                const Tensor& tokens) const {
  Step next{{}, state};
  next.logits = logits(select(model.step(unsqueeze(tokens, -1), next.state), 1, 0));
  return next;
}

GmlpMaskedLanguageModel::GmlpMaskedLanguageModel(const GmlpTextOptions& o, Rng& rng)
    : model(o, rng), transform(o.dim, o.dim, rng), norm(o.dim), decoder_bias(zeros({o.vocab})) {
  if (!o.tie_head) decoder_weight = normal_parameter({o.vocab, o.dim}, 0.02, rng);
}

Tensor GmlpMaskedLanguageModel::operator()(const Tensor& tokens, const Tensor& lengths) const {
  return linear(transformed(tokens, lengths), decoder_matrix(), decoder_bias);
}

Tensor GmlpMaskedLanguageModel::loss(const Tensor& tokens, const Tensor& lengths,
                                     const Tensor& labels, const CrossEntropyOptions& o) const {
  return linear_cross_entropy(transformed(tokens, lengths), decoder_matrix(), decoder_bias, labels,
                              o);
}

Tensor GmlpMaskedLanguageModel::transformed(const Tensor& tokens, const Tensor& lengths) const {
  return norm(transform(model(tokens, lengths), {.activation = Activation::gelu}));
}

GmlpTextClassifier::GmlpTextClassifier(const GmlpTextOptions& text, const GmlpClassifierOptions& o,
                                       Rng& rng)
    : model(text, rng),
      pooling(o.pooling),
      dropout(o.dropout, rng),
      head(text.dim, o.classes, rng) {
  check(o.pooling != TextPooling::first || !text.gate.causal,
        "GmlpTextClassifier: with causal gates, the first token sees no other token; pool the last "
        "token, or the mean");
}

Tensor GmlpTextClassifier::operator()(const Tensor& tokens, const Tensor& lengths) const {
  if (lengths.defined()) check_lengths(lengths, tokens, pooling == TextPooling::mean ? 0 : 1);
  return head(dropout(pooled(model(tokens, lengths), lengths)));
}

// x (B,T,D) -> (B,D)
Tensor GmlpTextClassifier::pooled(const Tensor& x, const Tensor& lengths) const {
  if (pooling == TextPooling::first) return select(x, 1, 0);
  if (pooling == TextPooling::last) {
    if (!lengths.defined()) return select(x, 1, x.size(1) - 1);
    const Tensor last = reshape(lengths - 1, {x.size(0), 1, 1});
    return squeeze(gather(x, 1, expand(last, {x.size(0), 1, x.size(2)})), 1);
  }
  if (!lengths.defined()) return mean(x, 1);
  const Tensor real = where(unsqueeze(before(lengths, x.size(1)), -1), x, 0);
  return sum(real, 1) / unsqueeze(maximum(lengths, 1), -1).to(x.dtype());
}

}  // namespace tern::models
