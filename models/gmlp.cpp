#include "tern/models/gmlp.h"

#include <utility>

#include "tern/core/tape/autograd.h"

namespace tern::models {
namespace {

int64_t ffn_of(const GmlpOptions& o) { return o.d_ffn ? o.d_ffn : 4 * o.dim; }

// What the stem leaves of the image's side.
int64_t side_after_stem(const GmlpOptions& o) {
  int64_t side = o.image;
  for (const StemLayer& l : o.stem) {
    check(l.stride > 0, "Gmlp: the stem's strides must be positive, one is {}", l.stride);
    side = (side - 1) / l.stride + 1;
  }
  return side;
}

int64_t tokens_of(const GmlpOptions& o) {
  int64_t side = side_after_stem(o);
  check(o.patch > 0 && side >= o.patch && side % o.patch == 0,
        "Gmlp: patches of {} do not tile {} x {} pixels{}", o.patch, side, side,
        o.stem.empty() ? "" : " (what the stem leaves)");
  return (side / o.patch) * (side / o.patch) + o.class_token;
}

nn::Parameter small_normal(const Shape& shape, Rng& rng) {
  nn::Parameter p(empty(shape));
  nn::init::normal(p, 0, 0.02, rng);
  return p;
}

}  // namespace

const std::vector<std::pair<std::string, GmlpOptions>>& gmlp_configurations() {
  static const std::vector<std::pair<std::string, GmlpOptions>> kConfigurations = {
      {"gmlp-4m", {.patch = 8, .dim = 512, .layers = 3}},
      {"gmlp-51m", {.patch = 8, .dim = 1024, .layers = 8}},
      {"gmlp-small", {.patch = 4, .dim = 64, .layers = 3, .fc_dim = 64}},
      {"gmlp-stem",
       {.stem = {{64, 1}, {128, 2}, {192, 2}},
        .patch = 1,
        .dim = 192,
        .layers = 4,
        .d_ffn = 768,
        .fc_dim = 0,
        .class_token = false,
        .output_gelu = false,
        .dropout = 0,
        .gate = {.weight_bound = 1e-3}}},
  };
  return kConfigurations;
}

GmlpOptions gmlp_options(const std::string& name) {
  std::string known;
  for (const auto& [n, options] : gmlp_configurations()) {
    if (n == name) return options;
    known += (known.empty() ? "" : ", ") + n;
  }
  fail(fmt::format("gmlp: no configuration '{}'; there are {}", name, known));
}

std::vector<std::string> gmlp_names() {
  std::vector<std::string> names;
  for (const auto& [name, options] : gmlp_configurations()) names.push_back(name);
  return names;
}

GmlpBlock::GmlpBlock(const GmlpOptions& o, int64_t tokens, double depth, Rng& rng)
    : norm(o.dim),
      channel_proj_u(o.dim, ffn_of(o), rng),
      sgu(ffn_of(o), tokens, rng, o.gate),
      channel_proj_v(o.gate.split ? ffn_of(o) / 2 : ffn_of(o), o.dim, rng),
      output(o.output_gelu ? Activation::gelu : Activation::none) {
  int64_t gated = channel_proj_v.weight.size(1);
  if (o.attention_dim > 0) attention.emplace(o.dim, gated, o.attention_dim, rng, o.gate.causal);
  if (o.drop_path > 0) drop_path.emplace(o.drop_path * depth, rng);
}

Tensor GmlpBlock::first(const Tensor& x, int64_t count) const {
  const LinearOptions with_gelu{.activation = Activation::gelu};
  auto cut = [&](const Tensor& t) { return count < t.size(1) ? narrow(t, 1, 0, count) : t; };
  Tensor h = norm(x), added = attention ? cut((*attention)(h)) : Tensor();
  if (count == x.size(1)) {
    h = sgu(channel_proj_u(h, with_gelu), added);
  } else if (sgu.options.split) {
    const Tensor &w = channel_proj_u.weight, &b = channel_proj_u.bias;
    int64_t half = w.size(0) / 2;
    Tensor u = linear(cut(h), narrow(w, 0, 0, half), narrow(b, 0, 0, half), with_gelu);
    Tensor v = linear(h, narrow(w, 0, half, half), narrow(b, 0, half, half), with_gelu);
    h = sgu.gate(u, v, added);
  } else {
    h = channel_proj_u(h, with_gelu);
    h = sgu.gate(cut(h), h, added);
  }
  if (!drop_path || !drop_path->training)
    return channel_proj_v(h, {.activation = output, .residual = cut(x)});
  return cut(x) + (*drop_path)(channel_proj_v(h, {.activation = output}));
}

ConvNormGelu::ConvNormGelu(int64_t in, const StemLayer& l, Rng& rng)
    : conv(in, l.channels, {3, 3}, rng, {.stride = {l.stride, l.stride}, .padding = {1, 1}},
           nn::Bias::no),
      norm(l.channels) {}

GmlpVision::GmlpVision(const GmlpOptions& o, Rng& rng)
    : patch_embed(o.stem.empty() ? o.channels : o.stem.back().channels, o.dim, {o.patch, o.patch},
                  rng, {.stride = {o.patch, o.patch}}),
      dropout(o.dropout, rng),
      norm(o.dim) {
  int64_t tokens = tokens_of(o), in = o.channels;
  for (const StemLayer& layer : o.stem) {
    stem.emplace_back(in, layer, rng);
    in = layer.channels;
  }
  if (o.class_token) cls_token = small_normal({1, 1, o.dim}, rng);
  if (o.positions) pos_embed = small_normal({1, tokens, o.dim}, rng);
  for (int64_t i = 0; i < o.layers; ++i) {
    double depth = o.layers > 1 ? static_cast<double>(i) / static_cast<double>(o.layers - 1) : 1;
    blocks.emplace_back(o, tokens, depth, rng);
  }
}

Tensor GmlpVision::operator()(const Tensor& images) const {
  Tensor x = images;
  for (const ConvNormGelu& layer : stem) x = layer(x);
  x = transpose(flatten(patch_embed(x), 2), 1, 2);  // (B,D,H',W') -> (B,P,D)
  if (cls_token.defined()) x = cat({expand(cls_token, {x.size(0), 1, x.size(2)}), x}, 1);
  if (pos_embed.defined()) x = x + pos_embed;
  x = dropout(x);
  // Where token 0 alone is looked at, the last block need not finish the others: that saves two
  // thirds of the block, and the gradients are the same.
  for (size_t i = 0; i < blocks.size(); ++i) {
    bool last = cls_token.defined() && i + 1 == blocks.size();
    x = blocks[i].first(x, last ? 1 : x.size(1));
  }
  return cls_token.defined() ? norm(select(x, 1, 0)) : mean(norm(x), 1);
}

Gmlp::Gmlp(const GmlpOptions& o, Rng& rng)
    : options(o), model(o, rng), head(o.fc_dim ? o.fc_dim : o.dim, o.classes, rng) {
  if (o.fc_dim) fc_1.emplace(o.dim, o.fc_dim, rng);
}

Tensor Gmlp::operator()(const Tensor& images) const {
  check(images.ndim() == 4 && images.size(1) == options.channels &&
            images.size(2) == options.image && images.size(3) == options.image,
        "Gmlp: needs images (B, {}, {}, {}), the shape is {}", options.channels, options.image,
        options.image, images.shape());
  Tensor x = model(images);
  if (fc_1) x = (*fc_1)(x, {.activation = Activation::gelu});
  return head(x);
}

std::vector<Tensor> Gmlp::spatial_weights() const {
  NoGradGuard no_grad;
  std::vector<Tensor> out;
  for (const GmlpBlock& block : model.blocks) out.push_back(block.sgu.spatial_weight().clone());
  return out;
}

std::string Gmlp::summary() const {
  return fmt::format("{} blocks on {} tokens of {} channels", options.layers, tokens_of(options),
                     options.dim);
}

int64_t Gmlp::patch_size() const {
  int64_t pixels = options.patch;
  for (const StemLayer& layer : options.stem) pixels *= layer.stride;
  return pixels;
}

Heatmaps Gmlp::heatmaps(const Tensor&) const {
  Heatmaps out{
      "Spatial weights", "Row m, column n: how much token n adds to the gate of token m. ", {}};
  out.caption += options.class_token
                     ? "Token 0 is the class token, the others are the patches in reading order."
                     : "The tokens are the patches in reading order.";
  for (const Tensor& w : spatial_weights())
    out.maps.push_back({fmt::format("Layer {}", out.maps.size() + 1),
                        w.ndim() == 3 ? w : reshape(w, {1, w.size(0), w.size(1)})});
  return out;
}

}  // namespace tern::models
