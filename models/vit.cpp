// The Vision Transformer's attention, blocks, embedding of patches and head. Configurations, states
// of timm and maps are in the other vit_*.cpp.
#include "tern/models/vit.h"

#include <utility>

#include "tern/core/ops/attention/heads.h"
#include "tern/core/tape/op.h"
#include "tern/models/parts.h"

namespace tern::models {
namespace {

int64_t mlp_of(const VitOptions& o) { return o.mlp_dim ? o.mlp_dim : 4 * o.dim; }

// Initialised as all linear layers in timm.
nn::Linear linear_layer(int64_t in, int64_t out, Rng& rng, nn::Bias bias = nn::Bias::yes) {
  nn::Linear layer(in, out, rng, bias);
  nn::init::trunc_normal(layer.weight, rng, {.std = 0.02});
  if (layer.bias.defined()) nn::init::constant(layer.bias, 0);
  return layer;
}

bool pools_before_norm(const VitOptions& o) {
  return o.final_norm == VitFinalNorm::pooled ||
         (o.final_norm == VitFinalNorm::usual && o.pooling == VitPooling::average);
}

}  // namespace

VitAttention::VitAttention(const VitOptions& o, Rng& source)
    : qkv(linear_layer(o.dim, 3 * o.dim, source, o.qkv_bias ? nn::Bias::yes : nn::Bias::no)),
      proj(linear_layer(o.dim, o.dim, source)),
      heads(o.heads),
      dropout(o.attention_dropout.value_or(o.dropout)),
      rng(source.split()) {}

Tensor VitAttention::context(const Tensor& x, int64_t count, Tensor* weights) const {
  ModuleScope module(qkv.weight);
  const AttentionOptions options{.dropout = training ? dropout : 0, .rng = &rng};
  if (weights) {
    using detail::split_heads;
    const std::vector<Tensor> parts = chunk(qkv(x), 3, -1);
    return detail::join_heads(attend_heads(split_heads(parts[0], heads),
                                           split_heads(parts[1], heads),
                                           split_heads(parts[2], heads), options, weights));
  }
  if (count == x.size(1)) return self_attention(qkv(x), {heads}, options);
  const int64_t dim = qkv.weight.size(1);
  auto project = [&](const Tensor& tokens, int64_t row, int64_t rows) {
    return linear(tokens, narrow(qkv.weight, 0, row, rows),
                  qkv.bias.defined() ? narrow(qkv.bias, 0, row, rows) : Tensor());
  };
  return cross_attention(project(narrow(x, 1, 0, count), 0, dim), project(x, dim, 2 * dim), {heads},
                         options);
}

VitBranch::VitBranch(const VitOptions& o, double p, double depth, Rng& rng)
    : dropout(p, rng), drop_path(o.drop_path * depth, rng) {
  if (o.layer_scale != 0) gamma = nn::Parameter(full({o.dim}, o.layer_scale));
}

Tensor VitBranch::add(const Tensor& x, const nn::Linear& last, const Tensor& h) const {
  const LinearOptions drops{.dropout = dropout.rate(), .rng = &dropout.rng};
  if (drop_path.rate() > 0 || gamma.defined()) return drop_path.add(last(h, drops), x, gamma);
  LinearOptions ends = drops;
  ends.residual = x;
  return last(h, ends);
}

VitBlock::VitBlock(const VitOptions& o, double depth, Rng& rng)
    : norm1(o.dim, {.eps = o.eps}),
      norm2(o.dim, {.eps = o.eps}),
      attn(o, rng),
      fc1(linear_layer(o.dim, mlp_of(o), rng)),
      fc2(linear_layer(mlp_of(o), o.dim, rng)),
      hidden_dropout(o.mlp_dropout.value_or(o.dropout), rng),
      branch1(o, o.projection_dropout.value_or(o.dropout), depth, rng),
      branch2(o, o.mlp_dropout.value_or(o.dropout), depth, rng),
      activation(o.activation),
      norm_first(o.norm_first) {}

Tensor VitBlock::first(const Tensor& x, int64_t count, Tensor* weights) const {
  const Tensor h = norm_first ? norm1(x) : x;
  Tensor y = branch1.add(count < x.size(1) ? narrow(x, 1, 0, count) : x, attn.proj,
                         attn.context(h, count, weights));
  if (!norm_first) y = norm1(y);
  const Tensor hidden =
      fc1(norm_first ? norm2(y) : y,
          {.activation = activation, .dropout = hidden_dropout.rate(), .rng = &hidden_dropout.rng});
  y = branch2.add(y, fc2, hidden);
  return norm_first ? y : norm2(y);
}

Vit::Vit(const VitOptions& o, Rng& rng)
    : options((vit_weights(o), o)),  // checks them
      stem(stem_layers(o.stem, o.channels, rng)),
      patch_embed(channels_after(o.stem, o.channels), o.dim, {o.patch, o.patch}, rng,
                  {.stride = {o.patch, o.patch}}, o.norm_pre ? nn::Bias::no : nn::Bias::yes),
      dropout(o.position_dropout.value_or(o.dropout), rng) {
  const int64_t side = patches_per_side(o), prefix = prefix_tokens();
  if (o.class_token) cls_token = normal_parameter({1, 1, o.dim}, 1e-6, rng);
  if (o.registers > 0) reg_token = normal_parameter({1, o.registers, o.dim}, 1e-6, rng);
  const int64_t placed = o.positions_on_prefix ? prefix : 0;
  if (o.positions == VitPositions::learned)
    pos_embed = normal_parameter({1, placed + side * side, o.dim}, o.position_std, rng);
  if (o.positions == VitPositions::sincos)
    fixed_positions = nn::Buffer(
        unsqueeze(pad(nn::sincos_2d_positions(side, side, o.dim), {0, 0, placed, 0}), 0));
  if (o.norm_pre) norm_pre.emplace(o.dim, nn::NormOptions{.eps = o.eps});
  for (int64_t i = 0; i < o.layers; ++i) {
    double depth = o.layers > 1 ? static_cast<double>(i) / static_cast<double>(o.layers - 1) : 1;
    blocks.emplace_back(o, depth, rng);
  }
  if (o.final_norm != VitFinalNorm::none)
    (pools_before_norm(o) ? fc_norm : norm).emplace(o.dim, nn::NormOptions{.eps = o.eps});
  if (o.fc_dim > 0) fc_1 = linear_layer(o.dim, o.fc_dim, rng);
  if (o.classes > 0) head = linear_layer(o.fc_dim ? o.fc_dim : o.dim, o.classes, rng);
}

Tensor Vit::embed(const Tensor& images) const {
  check_images("Vit", images, options);
  Tensor x = images;
  for (const ConvNormGelu& layer : stem) x = layer(x);
  x = transpose(flatten(patch_embed(x), 2), 1, 2);  // (B,D,H',W') -> (B,P,D)
  const Tensor& positions = pos_embed.defined() ? pos_embed.tensor() : fixed_positions.tensor();
  if (positions.defined() && !options.positions_on_prefix) x = x + positions;
  std::vector<Tensor> parts;
  for (const nn::Parameter* token : {&cls_token, &reg_token})
    if (token->defined()) parts.push_back(expand(*token, {x.size(0), -1, -1}));
  parts.push_back(x);
  if (parts.size() > 1) x = cat(parts, 1);
  if (positions.defined() && options.positions_on_prefix) x = x + positions;
  x = dropout(x);
  return norm_pre ? (*norm_pre)(x) : x;
}

Tensor Vit::classify(const Tensor& tokens) const {
  const int64_t prefix = prefix_tokens();
  Tensor x = tokens;
  if (options.pooling == VitPooling::token) {
    x = select(x, 1, 0);  // before the norm, which then has a single token
    if (norm) x = (*norm)(x);
  } else {
    if (norm) x = (*norm)(x);
    x = mean(prefix > 0 ? narrow(x, 1, prefix, x.size(1) - prefix) : x, 1);
  }
  if (fc_norm) x = (*fc_norm)(x);
  if (fc_1) x = (*fc_1)(x, {.activation = Activation::gelu});
  return head ? (*head)(x) : x;
}

Tensor Vit::operator()(const Tensor& images) const {
  Tensor x = embed(images);
  // If only token 0 is used, the last block need not compute the others: this saves five sixths of
  // the block's products and gives the same gradients.
  for (size_t i = 0; i < blocks.size(); ++i) {
    const bool last = options.pooling == VitPooling::token && i + 1 == blocks.size();
    auto block = [&block = blocks[i], count = last ? 1 : x.size(1)](std::span<const Tensor> in) {
      return block.first(in[0], count);
    };
    x = nn::recomputed(options.recompute, {x}, block);
  }
  return classify(x);
}

std::vector<Tensor> Vit::attention_maps(const Tensor& images) const {
  std::vector<Tensor> maps(blocks.size());
  Tensor x = embed(images);
  for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i].first(x, x.size(1), &maps[i]);
  return maps;
}

std::string Vit::summary() const {
  const int64_t side = patches_per_side(options);
  return fmt::format("{} blocks on {} tokens of {} channels, {} heads{}", options.layers,
                     side * side + prefix_tokens(), options.dim, options.heads,
                     behind(options.stem));
}

}  // namespace tern::models
