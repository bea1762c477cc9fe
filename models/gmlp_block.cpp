// One gMLP block with optional tiny attention, a stack of blocks, their number of weights, and
// their spatial matrices as heatmaps.
#include "tern/models/gmlp_block.h"

#include "tern/core/tape/autograd.h"

namespace tern::models {
namespace {

constexpr GmlpNames kPost = {
    "model", "patch_embed.proj", "blocks.layers", "channel_proj_U.0", "sgu",
    "",      "channel_proj_V.0"};
constexpr GmlpNames kTimm = {
    "",      "stem.proj",       "blocks", "mlp_channels.fc1", "mlp_channels.gate",
    "proj.", "mlp_channels.fc2"};

nn::SpatialGatingOptions gate_of(const GmlpBlockOptions& o) {
  nn::SpatialGatingOptions gate = o.gate;
  gate.weight_prefix = gmlp_names_of(o.naming).gate_weight_prefix;
  return gate;
}

LinearOptions with_gelu() { return {.activation = Activation::gelu}; }

}  // namespace

const GmlpNames& gmlp_names_of(GmlpNaming naming) {
  return naming == GmlpNaming::post ? kPost : kTimm;
}

GmlpBlockCache GmlpBlockCache::select_rows(const Tensor& rows) const {
  return {gate.select_rows(rows), attention.select_rows(rows)};
}

GmlpBlock::GmlpBlock(const GmlpBlockOptions& o, int64_t tokens, double depth, Rng& rng)
    : norm(o.dim, {.eps = o.norm_eps}),
      channel_proj_u(o.dim, o.d_ffn, rng),
      sgu(o.d_ffn, tokens, rng, gate_of(o)),
      channel_proj_v(o.gate.split ? o.d_ffn / 2 : o.d_ffn, o.dim, rng),
      output(o.output_gelu ? Activation::gelu : Activation::none),
      naming(o.naming) {
  check(o.attention_dim >= 0,
        "GmlpBlock: .attention_dim must not be negative, got {}; 0 means no tiny attention",
        o.attention_dim);
  int64_t gated = channel_proj_v.weight.size(1);
  if (o.attention_dim > 0) attention.emplace(o.dim, gated, o.attention_dim, rng, o.gate.causal);
  if (o.drop_path != 0) drop_path.emplace(o.drop_path * depth, rng);
}

Tensor GmlpBlock::operator()(const Tensor& x, const Tensor& real) const {
  const Tensor h = norm(x);
  const nn::Mask mask = real.defined() ? nn::Mask::keys(real) : nn::Mask();
  const Tensor added = attention ? (*attention)(h, mask) : Tensor();
  return finished(x, sgu(channel_proj_u(h, with_gelu()), added, real));
}

Tensor GmlpBlock::first(const Tensor& x, int64_t count) const {
  if (count == x.size(1)) return (*this)(x);
  auto cut = [&](const Tensor& t) { return narrow(t, 1, 0, count); };
  const Tensor h = norm(x), added = attention ? cut((*attention)(h)) : Tensor();
  Tensor u, v;
  if (sgu.options.split) {
    const Tensor &w = channel_proj_u.weight, &b = channel_proj_u.bias;
    int64_t half = w.size(0) / 2;
    u = linear(cut(h), narrow(w, 0, 0, half), narrow(b, 0, 0, half), with_gelu());
    v = linear(h, narrow(w, 0, half, half), narrow(b, 0, half, half), with_gelu());
  } else {
    v = channel_proj_u(h, with_gelu());
    u = cut(v);
  }
  return finished(cut(x), sgu.gate(u, v, added));
}

Tensor GmlpBlock::step(const Tensor& x, GmlpBlockCache& cache) const {
  const Tensor h = norm(x), added = attention ? attention->step(h, cache.attention) : Tensor();
  return finished(x, sgu.step(channel_proj_u(h, with_gelu()), cache.gate, added));
}

// V, its activation, stochastic depth, and the residual.
Tensor GmlpBlock::finished(const Tensor& x, const Tensor& gated) const {
  if (!drop_path || drop_path->rate() == 0)
    return channel_proj_v(gated, {.activation = output, .residual = x});
  return drop_path->add(channel_proj_v(gated, {.activation = output}), x);
}

std::vector<GmlpBlock> gmlp_blocks(int64_t layers, const GmlpBlockOptions& o, int64_t tokens,
                                   Rng& rng) {
  std::vector<GmlpBlock> blocks;
  for (int64_t i = 0; i < layers; ++i) {
    double depth = layers > 1 ? static_cast<double>(i) / static_cast<double>(layers - 1) : 1;
    blocks.emplace_back(o, tokens, depth, rng);
  }
  return blocks;
}

int64_t gmlp_block_weights(const GmlpBlockOptions& o, int64_t tokens) {
  auto linear = [](int64_t in, int64_t out) { return in * out + out; };
  const int64_t gated = o.gate.split ? o.d_ffn / 2 : o.d_ffn, a = o.attention_dim;
  int64_t head = tokens;  // the bias, then W
  switch (o.gate.matrix) {
    case nn::SpatialMatrix::full:
      head += tokens * tokens;
      break;
    case nn::SpatialMatrix::toeplitz:
      head += 2 * tokens - 1;
      break;
    case nn::SpatialMatrix::circulant:
      head += tokens;
      break;
  }
  return 2 * o.dim + linear(o.dim, o.d_ffn) + 2 * gated + o.gate.heads * head +
         (a > 0 ? linear(o.dim, 3 * a) + linear(a, gated) : 0) + linear(gated, o.dim);
}

std::vector<Tensor> spatial_weights(const std::vector<GmlpBlock>& blocks) {
  NoGradGuard no_grad;
  std::vector<Tensor> out;
  for (const GmlpBlock& block : blocks) out.push_back(block.sgu.spatial_weight().clone());
  return out;
}

Heatmaps spatial_heatmaps(const std::vector<GmlpBlock>& blocks, const std::string& tokens) {
  Heatmaps out{"Spatial weights",
               "Row m, column n: how much token n adds to the gate of token m. " + tokens,
               {}};
  for (const Tensor& w : spatial_weights(blocks)) {
    const std::string title = fmt::format("Layer {}", out.maps.size() + 1);
    if (w.ndim() == 3)
      out.maps.push_back({title, w, head_labels(w.size(0)), "mean of the heads"});
    else
      out.maps.push_back({title, unsqueeze(w, 0)});
  }
  return out;
}

}  // namespace tern::models
