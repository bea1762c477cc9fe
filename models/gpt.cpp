// GPT-2 and Llama as one model with options: layers, losses, and steps with a cache of keys and
// values. Sizes by name and files: gpt_files.cpp.
#include "tern/models/gpt.h"

#include <cmath>

#include "tern/core/ops/attention/heads.h"
#include "tern/core/ops/fused.h"
#include "tern/core/tape/op.h"

namespace tern::models {
namespace {

constexpr double kStd = 0.02;

bool is_gpt2(const GptOptions& o) { return o.names == GptNames::gpt2; }

/// The initial deviation of the matrices that end the 2 L sublayers: it keeps the sum of the
/// sublayers from growing with L.
double residual_std(const GptOptions& o) {
  return kStd / std::sqrt(2 * static_cast<double>(std::max<int64_t>(o.layers, 1)));
}

int64_t ffn_dim(const GptOptions& o) { return o.ffn_dim ? o.ffn_dim : 4 * o.dim; }

HeadCounts head_counts(const GptOptions& o) {
  return detail::counted_heads("Gpt", o.heads, o.kv_heads);
}

nn::Parameter normal(const Shape& shape, double std, Rng& rng) {
  nn::Parameter p(empty(shape));
  nn::init::normal(p, 0, std, rng);
  return p;
}

GptNormLayer norm_of(const GptOptions& o) {
  if (o.norm == GptNorm::rms) return nn::RmsNorm(o.dim, {.eps = o.eps});
  return nn::LayerNorm(o.dim, {.eps = o.eps, .bias = o.bias});
}

Tensor normalise(const GptNormLayer& norm, const Tensor& x) {
  return std::visit([&](const auto& layer) { return layer(x); }, norm);
}

/// Returns the options if a model can be made of them.
const GptOptions& checked(const GptOptions& o) {
  check(o.vocab > 0 && o.context > 0 && o.layers >= 0 && o.ffn_dim >= 0,
        "Gpt: vocab {}, context {}, layers {}, ffn_dim {}; the first two must be positive, the "
        "others not negative",
        o.vocab, o.context, o.layers, o.ffn_dim);
  detail::check_heads("Gpt", o.dim, o.heads);
  head_counts(o);
  check(o.positions == GptPositions::learned || o.dim / o.heads % 2 == 0,
        "Gpt: rotary positions need an even number of channels per head, got {}", o.dim / o.heads);
  for (double p : {o.dropout, o.embed_dropout.value_or(0), o.attention_dropout.value_or(0)})
    check(p >= 0 && p < 1, "Gpt: dropout must be in [0, 1), it is {}", p);
  return o;
}

void check_tokens(const Tensor& tokens) {
  check(tokens.ndim() == 2 && tokens.dtype() == DType::i64, "Gpt: tokens are i64 (B, T), got {} {}",
        tokens.dtype(), tokens.shape());
}

}  // namespace

GptLinear::GptLinear(const GptOptions& o, int64_t in, int64_t out, double std, Rng& rng)
    : transposed(is_gpt2(o)) {
  weight = normal(transposed ? Shape{in, out} : Shape{out, in}, std, rng);
  if (o.bias == nn::Bias::yes) bias = nn::Parameter(zeros({out}));
}

Tensor GptLinear::operator()(const Tensor& x, const LinearOptions& options) const {
  ModuleScope module(weight);
  if (!transposed) return linear(x, weight, bias, options);
  return linear(x, transpose(weight, 0, 1), bias, options);
}

GptAttention::GptAttention(const GptOptions& o, Rng& source)
    : names(o.names),
      positions(o.positions),
      rope_base(o.rope_base),
      counts(head_counts(o)),
      out(o, o.dim, o.dim, residual_std(o), source),
      dropout(o.attention_dropout.value_or(o.dropout)),
      rng(source.split()) {
  const int64_t kv = counts.kv_heads * (o.dim / o.heads);
  if (is_gpt2(o)) {
    c_attn.emplace(o, o.dim, o.dim + 2 * kv, kStd, source);
    return;
  }
  q_proj.emplace(o, o.dim, o.dim, kStd, source);
  k_proj.emplace(o, o.dim, kv, kStd, source);
  v_proj.emplace(o, o.dim, kv, kStd, source);
}

AttentionOptions GptAttention::options(int64_t before) const {
  return {.mask = nn::Mask::causal(before).parts(),
          .scale = {},
          .dropout = training ? dropout : 0,
          .rng = &rng};
}

Tensor GptAttention::operator()(const Tensor& x, nn::KeyValueCache* cache, Tensor* weights) const {
  const int64_t before = cache ? cache->length() : 0;
  Tensor q, k, v;
  if (c_attn) {
    const Tensor qkv = (*c_attn)(x);
    if (!cache && !weights && positions == GptPositions::learned)
      return self_attention(qkv, counts, options(0));
    const int64_t dim = x.size(2), kv = (qkv.size(2) - dim) / 2;
    std::vector<Tensor> parts = split(qkv, std::vector<int64_t>{dim, kv, kv}, -1);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = (*q_proj)(x), k = (*k_proj)(x), v = (*v_proj)(x);
  }
  using detail::split_heads;
  q = split_heads(q, counts.heads);
  k = split_heads(k, counts.kv_heads);
  v = split_heads(v, counts.kv_heads);
  if (positions == GptPositions::rotary) {
    const nn::RotaryOptions turn{
        .offset = before, .base = rope_base, .pairs = nn::RotaryPairs::halves};
    q = nn::rotary(q, turn);
    k = nn::rotary(k, turn);
  }
  if (cache) {
    cache->append(k, v);
    k = cache->keys(), v = cache->values();
  }
  Tensor y;
  if (weights) {
    Attended attended = attention_with_weights(q, k, v, options(before));
    *weights = attended.weights;
    y = attended.context;
  } else {
    y = tern::attention(q, k, v, options(before));
  }
  return detail::join_heads(y);
}

GptMlp::GptMlp(const GptOptions& o, Rng& rng)
    : names(o.names),
      up(o, o.dim, ffn_dim(o), kStd, rng),
      down(o, ffn_dim(o), o.dim, residual_std(o), rng) {
  if (o.ffn == GptFfn::swiglu) gate.emplace(o, o.dim, ffn_dim(o), kStd, rng);
}

Tensor GptMlp::operator()(const Tensor& x) const {
  if (!gate) return up(x, {.activation = Activation::gelu_tanh});
  const Tensor g = (*gate)(x), u = up(x);
  return fused(
      "swiglu", [](auto a, auto b) { return silu(a) * b; }, g, u);
}

GptBlock::GptBlock(const GptOptions& o, Rng& rng)
    : names(o.names),
      norm1(norm_of(o)),
      norm2(norm_of(o)),
      attention(o, rng),
      mlp(o, rng),
      dropout(o.dropout, rng) {}

// x + dropout(matrix h)
Tensor GptBlock::add(const Tensor& x, const GptLinear& matrix, const Tensor& h) const {
  return matrix(h, {.residual = x, .dropout = dropout.rate(), .rng = &dropout.rng});
}

Tensor GptBlock::operator()(const Tensor& x, nn::KeyValueCache* cache, Tensor* weights) const {
  const Tensor attended = attention(normalise(norm1, x), cache, weights);
  // Computes the sum together with its norm, or in the product if there is no dropout.
  SumAndNorm y;
  if (dropout.rate() > 0)
    y = std::visit(
        [&](const auto& norm) { return norm.with_sum(attention.out(attended), x, dropout); },
        norm2);
  else
    y.sum = add(x, attention.out, attended), y.norm = normalise(norm2, y.sum);
  return add(y.sum, mlp.down, mlp(y.norm));
}

GptState GptState::select_rows(const Tensor& rows) const {
  GptState picked{{}, rows.numel(), position};
  for (const nn::KeyValueCache& layer : layers) picked.layers.push_back(layer.select_rows(rows));
  return picked;
}

GptBody::GptBody(const GptOptions& o, Rng& rng)
    : names(o.names),
      embed(normal({o.vocab, o.dim}, kStd, rng)),
      dropout(o.embed_dropout.value_or(o.dropout), rng),
      norm(norm_of(o)) {
  if (o.positions == GptPositions::learned) positions = normal({o.context, o.dim}, kStd, rng);
  for (int64_t i = 0; i < o.layers; ++i) blocks.emplace_back(o, rng);
}

Gpt::Gpt(const GptOptions& o, Rng& rng) : options(checked(o)), body(o, rng) {
  if (!o.tie_head) head = normal({o.vocab, o.dim}, kStd, rng);
}

Tensor Gpt::run(const Tensor& tokens, GptState* state, std::vector<Tensor>* weights) const {
  const int64_t before = state ? state->position : 0, count = tokens.size(1);
  check(before + count <= options.context,
        "Gpt: {} tokens after {} exceed the context of {}; cut the text, or make the model with a "
        "larger .context",
        count, before, options.context);
  Tensor x = embedding(tokens, body.embed);
  if (body.positions.defined()) x = x + narrow(body.positions, 0, before, count);
  x = body.dropout(x);
  if (weights) weights->resize(body.blocks.size());
  for (size_t i = 0; i < body.blocks.size(); ++i) {
    const GptBlock& block = body.blocks[i];
    if (state || weights)
      x = block(x, state ? &state->layers[i] : nullptr, weights ? &(*weights)[i] : nullptr);
    else
      x = nn::recomputed(options.recompute, {x},
                         [&block](std::span<const Tensor> in) { return block(in[0]); });
  }
  if (state) state->position += count;
  return x;
}

Tensor Gpt::logits(const Tensor& x) const { return linear(normalise(body.norm, x), head_matrix()); }

Tensor Gpt::operator()(const Tensor& tokens) const {
  check_tokens(tokens);
  return logits(run(tokens, nullptr, nullptr));
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& labels, const CrossEntropyOptions& o) const {
  check_tokens(tokens);
  return linear_cross_entropy(normalise(body.norm, run(tokens, nullptr, nullptr)), head_matrix(),
                              {}, labels, o);
}

Gpt::Output Gpt::attend(const Tensor& tokens) const {
  check_tokens(tokens);
  std::vector<Tensor> weights;
  Tensor x = run(tokens, nullptr, &weights);
  return {logits(x), std::move(weights)};
}

GptState Gpt::encode(const Tensor& tokens) const {
  check_tokens(tokens);
  GptState state{std::vector<nn::KeyValueCache>(body.blocks.size()), tokens.size(0), 0};
  if (tokens.size(1) > 0) static_cast<void>(run(tokens, &state, nullptr));
  return state;
}

Gpt::Step Gpt::step(const GptState& before, const Tensor& tokens) const {
  check(tokens.ndim() == 1 && tokens.dtype() == DType::i64 && tokens.size(0) == before.texts,
        "Gpt: a step takes one token per text, i64 ({},), got {} {}", before.texts, tokens.dtype(),
        tokens.shape());
  check(before.layers.size() == body.blocks.size(),
        "Gpt: the state has {} layers, but the model has {}", before.layers.size(),
        body.blocks.size());
  Step next{{}, before};
  Tensor x = run(unsqueeze(tokens, 1), &next.state, nullptr);
  next.logits = logits(squeeze(x, 1));
  return next;
}

}  // namespace tern::models
