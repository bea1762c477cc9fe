// GPT-2 and Llama as one model with options: layers, losses, and steps with a cache of keys and
// values. Configurations by name: gpt_options.cpp. Files: gpt_files.cpp.
#include "tern/models/gpt.h"

#include <cmath>

#include "tern/core/ops/attention/heads.h"
#include "tern/core/ops/fused.h"
#include "tern/core/tape/op.h"
#include "tern/models/parts.h"

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
bool gated(GptFfn ffn) { return ffn == GptFfn::swiglu || ffn == GptFfn::geglu; }

HeadCounts head_counts(const GptOptions& o) {
  return detail::counted_heads("Gpt", o.heads, o.kv_heads);
}

/// Whether a layer has a part, for a list that is empty if all have it.
bool has(const std::vector<bool>& layers, int64_t layer) {
  return layers.empty() || layers[static_cast<size_t>(layer)];
}

int64_t turned_channels(const GptOptions& o) {
  return static_cast<int64_t>(static_cast<double>(o.head_channels()) * o.rotary_share);
}

GptNormLayer norm_of(const GptOptions& o) {
  if (o.norm == GptNorm::rms) return nn::RmsNorm(o.dim, {.eps = o.eps, .offset = o.norm_offset});
  return nn::LayerNorm(o.dim, {.eps = o.eps, .bias = o.bias});
}

Tensor normalise(const GptNormLayer& norm, const Tensor& x) {
  return std::visit([&](const auto& layer) { return layer(x); }, norm);
}

const GptOptions& checked(const GptOptions& o) {
  static_cast<void>(gpt_weights(o));  // refuses sizes that cannot be
  return o;
}

void check_rotary(const GptOptions& o) {
  check(o.rope_base > 0 && o.window_rope_base >= 0,
        "Gpt: rope_base is {}, window_rope_base {}; the first must be above 0, the other not below",
        o.rope_base, o.window_rope_base);
  check(o.rotary_share > 0 && o.rotary_share <= 1, "Gpt: rotary_share must be in (0, 1], it is {}",
        o.rotary_share);
  const int64_t turned = turned_channels(o);
  check(o.head_channels() % 2 == 0 && turned % 2 == 0 && turned > 0,
        "Gpt: rotary positions need an even number of channels per head, got {}, of which {} are "
        "turned",
        o.head_channels(), turned);
  nn::check_rope_scaling("Gpt", o.rope_scaling, turned / 2);
}

/// Error if an option changes nothing, because the part that it belongs to is missing.
void check_used(const GptOptions& o) {
  check(o.window > 0 || o.window_layers.empty(),
        "Gpt: window_layers says which layers have the window, but window is 0; set window");
  check(o.window > 0 || o.window_rope_base == 0,
        "Gpt: window_rope_base {} is for layers with a window, but window is 0; set window",
        o.window_rope_base);
  check(
      o.norm_offset == 0 || o.norm == GptNorm::rms || o.qk_norm,
      "Gpt: norm_offset {} is for RMSNorm, but norm is layer and qk_norm false; make norm rms, or "
      "qk_norm true",
      o.norm_offset);
  if (o.positions == GptPositions::rotary) return;
  const GptOptions plain;
  for (const auto& [used, name] : {std::pair(o.rope_base != plain.rope_base, "rope_base"),
                                   {o.rope_scaling != plain.rope_scaling, "rope_scaling"},
                                   {o.rotary_share != plain.rotary_share, "rotary_share"},
                                   {!o.rotary_layers.empty(), "rotary_layers"},
                                   {o.window_rope_base != 0, "window_rope_base"}})
    check(!used, "Gpt: {} is for rotary positions, but positions is learned; make it rotary", name);
}

void check_tokens(const Tensor& tokens) {
  check(tokens.ndim() == 2 && tokens.dtype() == DType::i64, "Gpt: tokens are i64 (B, T), got {} {}",
        tokens.dtype(), tokens.shape());
}

}  // namespace

void check_options(const GptOptions& o) {
  check(o.vocab > 0 && o.context > 0 && o.layers >= 0 && o.ffn_dim >= 0 && o.head_dim >= 0 &&
            o.window >= 0,
        "Gpt: vocab {}, context {}, layers {}, ffn_dim {}, head_dim {}, window {}; the first two "
        "must be positive, the others not negative",
        o.vocab, o.context, o.layers, o.ffn_dim, o.head_dim, o.window);
  if (o.head_dim == 0) detail::check_heads("Gpt", o.dim, o.heads);
  check(o.dim > 0, "Gpt: dim is {}; it must be positive", o.dim);
  head_counts(o);
  if (o.positions == GptPositions::rotary) check_rotary(o);
  for (const auto* layers : {&o.rotary_layers, &o.window_layers})
    check(layers->empty() || std::ssize(*layers) == o.layers,
          "Gpt: {} has {} entries for {} layers",
          layers == &o.rotary_layers ? "rotary_layers" : "window_layers", layers->size(), o.layers);
  check(std::isfinite(o.embed_scale) && std::isfinite(o.norm_offset),
        "Gpt: embed_scale is {}, norm_offset {}; both must be finite", o.embed_scale,
        o.norm_offset);
  for (double p : {o.dropout, o.embed_dropout.value_or(0), o.attention_dropout.value_or(0)})
    check(p >= 0 && p < 1, "Gpt: dropout must be in [0, 1), it is {}", p);
  check_used(o);
}

GptLinear::GptLinear(GptNames names, int64_t in, int64_t out, nn::Bias with_bias, double std,
                     Rng& rng)
    : transposed(names == GptNames::gpt2) {
  weight = normal_parameter(transposed ? Shape{in, out} : Shape{out, in}, std, rng);
  if (with_bias == nn::Bias::yes) bias = nn::Parameter(zeros({out}));
}

Tensor GptLinear::operator()(const Tensor& x, const LinearOptions& options) const {
  ModuleScope module(weight);
  if (!transposed) return linear(x, weight, bias, options);
  return linear(x, transpose(weight, 0, 1), bias, options);
}

GptAttention::GptAttention(const GptOptions& o, int64_t layer, Rng& source)
    : names(o.names),
      counts(head_counts(o)),
      window(has(o.window_layers, layer) ? o.window : 0),
      out(o.names, o.heads * o.head_channels(), o.dim, o.out_bias.value_or(o.bias), residual_std(o),
          source),
      dropout(o.attention_dropout.value_or(o.dropout)),
      rng(source.split()) {
  const int64_t head = o.head_channels(), q = counts.heads * head, kv = counts.kv_heads * head;
  const nn::Bias bias = o.qkv_bias.value_or(o.bias);
  if (is_gpt2(o)) {
    c_attn.emplace(o.names, o.dim, q + 2 * kv, bias, kStd, source);
  } else {
    q_proj.emplace(o.names, o.dim, q, bias, kStd, source);
    k_proj.emplace(o.names, o.dim, kv, bias, kStd, source);
    v_proj.emplace(o.names, o.dim, kv, bias, kStd, source);
  }
  if (o.qk_norm)
    for (auto* norm : {&q_norm, &k_norm})
      norm->emplace(Shape{head}, nn::NormOptions{.eps = o.eps, .offset = o.norm_offset});
  if (o.positions == GptPositions::rotary && has(o.rotary_layers, layer))
    turn = {.base = o.rope_base,
            .pairs = nn::RotaryPairs::halves,
            .channels = turned_channels(o),
            .scaling = o.rope_scaling};
  if (turn && window > 0 && o.window_rope_base > 0)
    turn->base = o.window_rope_base, turn->scaling = {};
}

AttentionOptions GptAttention::options(int64_t before) const {
  return {.mask = nn::Mask::causal(before, window).parts(),
          .scale = {},
          .dropout = training ? dropout : 0,
          .rng = &rng};
}

std::array<Tensor, 3> GptAttention::project(const Tensor& x) const {
  if (!c_attn) return {(*q_proj)(x), (*k_proj)(x), (*v_proj)(x)};
  const Tensor qkv = (*c_attn)(x);
  const int64_t head = qkv.size(2) / (counts.heads + 2 * counts.kv_heads);
  const int64_t q = counts.heads * head, kv = counts.kv_heads * head;
  const std::vector<Tensor> parts = split(qkv, std::vector<int64_t>{q, kv, kv}, -1);
  return {parts[0], parts[1], parts[2]};
}

Tensor GptAttention::operator()(const Tensor& x, nn::KeyValueCache* cache, Tensor* weights) const {
  if (c_attn && !cache && !weights && !turn && !q_norm)
    return self_attention((*c_attn)(x), counts, options(0));
  const int64_t before = cache ? cache->length() : 0;
  auto [q, k, v] = project(x);
  auto split = [](const Tensor& t, int64_t heads, const std::optional<nn::RmsNorm>& norm) {
    const Tensor each = unflatten(t, -1, {heads, -1});
    return transpose(norm ? (*norm)(each) : each, 1, 2);
  };
  q = split(q, counts.heads, q_norm);
  k = split(k, counts.kv_heads, k_norm);
  v = split(v, counts.kv_heads, {});
  if (turn) {
    nn::RotaryOptions now = *turn;
    now.offset = before;
    q = nn::rotary(q, now);
    k = nn::rotary(k, now);
  }
  if (cache) {
    cache->append(k, v);
    k = cache->keys(), v = cache->values();
  }
  return detail::join_heads(attend_heads(q, k, v, options(before), weights));
}

GptMlp::GptMlp(const GptOptions& o, Rng& rng)
    : names(o.names),
      kind(o.ffn),
      up(o.names, o.dim, ffn_dim(o), o.bias, kStd, rng),
      down(o.names, ffn_dim(o), o.dim, o.bias, residual_std(o), rng) {
  if (gated(kind)) gate.emplace(o.names, o.dim, ffn_dim(o), o.bias, kStd, rng);
}

Tensor GptMlp::operator()(const Tensor& x) const {
  if (kind == GptFfn::gelu) return up(x, {.activation = Activation::gelu_tanh});
  if (kind == GptFfn::gelu_erf) return up(x, {.activation = Activation::gelu});
  const Tensor g = (*gate)(x), u = up(x);
  if (kind == GptFfn::geglu) return gelu(g, Gelu::tanh) * u;
  return fused(
      "swiglu", [](auto a, auto b) { return silu(a) * b; }, g, u);
}

GptBlock::GptBlock(const GptOptions& o, int64_t layer, Rng& rng)
    : names(o.names),
      norm1(norm_of(o)),
      norm2(norm_of(o)),
      attention(o, layer, rng),
      mlp(o, rng),
      dropout(o.dropout, rng),
      parallel(o.parallel) {
  if (o.post_norms) post_norm1 = norm_of(o), post_norm2 = norm_of(o);
}

// x + dropout(norm(matrix h))
Tensor GptBlock::add(const Tensor& x, const GptLinear& matrix, const Tensor& h,
                     const std::optional<GptNormLayer>& post_norm) const {
  if (post_norm) return x + dropout(normalise(*post_norm, matrix(h)));
  return matrix(h, {.residual = x, .dropout = dropout.rate(), .rng = &dropout.rng});
}

Tensor GptBlock::operator()(const Tensor& x, nn::KeyValueCache* cache, Tensor* weights) const {
  const Tensor attended = attention(normalise(norm1, x), cache, weights);
  // Computes the sum together with its norm, or in the product if there is no dropout.
  SumAndNorm y;
  if (parallel)
    y.sum = add(x, attention.out, attended, post_norm1), y.norm = normalise(norm2, x);
  else if (dropout.rate() > 0 && !post_norm1)
    y = std::visit(
        [&](const auto& norm) { return norm.with_sum(attention.out(attended), x, dropout); },
        norm2);
  else
    y.sum = add(x, attention.out, attended, post_norm1), y.norm = normalise(norm2, y.sum);
  return add(y.sum, mlp.down, mlp(y.norm), post_norm2);
}

GptState GptState::select_rows(const Tensor& rows) const {
  GptState picked{{}, rows.numel(), position};
  for (const nn::KeyValueCache& layer : layers) picked.layers.push_back(layer.select_rows(rows));
  return picked;
}

GptBody::GptBody(const GptOptions& o, Rng& rng)
    : names(o.names),
      embed(normal_parameter({o.vocab, o.dim}, kStd, rng)),
      dropout(o.embed_dropout.value_or(o.dropout), rng),
      norm(norm_of(o)) {
  if (o.positions == GptPositions::learned)
    positions = normal_parameter({o.context, o.dim}, kStd, rng);
  for (int64_t i = 0; i < o.layers; ++i) blocks.emplace_back(o, i, rng);
}

Gpt::Gpt(const GptOptions& o, Rng& rng) : options(checked(o)), body(o, rng) {
  if (!o.tie_head) head = normal_parameter({o.vocab, o.dim}, kStd, rng);
}

Tensor Gpt::run(const Tensor& tokens, GptState* state, std::vector<Tensor>* weights) const {
  const int64_t before = state ? state->position : 0, count = tokens.size(1);
  check(before + count <= options.context,
        "Gpt: {} tokens after {} exceed the context of {}; cut the text, or make the model with a "
        "larger .context",
        count, before, options.context);
  Tensor x = embedding(tokens, body.embed);
  if (options.embed_scale != 1) x = x * options.embed_scale;
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

Gpt::Step Gpt::extend(const GptState& before, const Tensor& tokens) const {
  check_tokens(tokens);
  check(tokens.size(0) == before.texts && before.layers.size() == body.blocks.size(),
        "Gpt: tokens {} for a state of {} texts and {} layers, in a model of {} layers",
        tokens.shape(), before.texts, before.layers.size(), body.blocks.size());
  Step next{{}, before};
  next.logits = logits(run(tokens, &next.state, nullptr));
  return next;
}

Gpt::Step Gpt::step(const GptState& before, const Tensor& tokens) const {
  check(tokens.ndim() == 1 && tokens.dtype() == DType::i64 && tokens.size(0) == before.texts,
        "Gpt: a step takes one token per text, i64 ({},), got {} {}", before.texts, tokens.dtype(),
        tokens.shape());
  Step next = extend(before, unsqueeze(tokens, 1));
  next.logits = squeeze(next.logits, 1);
  return next;
}

}  // namespace tern::models
