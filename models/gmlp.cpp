// The gMLP for images: stem, patches, blocks and head, and its named configurations.
#include "tern/models/gmlp.h"

#include <fmt/format.h>

#include <utility>

#include "tern/models/parts.h"

namespace tern::models {
namespace {

int64_t tokens_of(const GmlpOptions& o) {
  const int64_t side = patches_after(o.stem, o.image, o.patch, "Gmlp");
  return side * side + o.class_token;
}

// The paper's smallest model, for CIFAR-10: 64 patches instead of 196. Its 4.6 million weights soon
// memorise the 50,000 images, so it gets stochastic depth, unlike on ImageNet.
GmlpOptions paper_form_for_cifar() {
  GmlpOptions o = gmlp_paper_form(128, 0.1);
  o.image = 32;
  o.patch = 4;
  o.classes = 10;
  return o;
}

std::vector<std::pair<std::string, GmlpOptions>> all_configurations() {
  auto all = gmlp_configurations();
  // The paper's survival probabilities: 1, 0.95, 0.8.
  all.emplace_back("gmlp_ti16_224", gmlp_paper_form(128, 0));
  all.emplace_back("gmlp_s16_224", gmlp_paper_form(256, 0.05));
  all.emplace_back("gmlp_b16_224", gmlp_paper_form(512, 0.2));
  return all;
}

}  // namespace

GmlpBlockOptions GmlpOptions::block() const {
  return {.dim = dim,
          .d_ffn = d_ffn ? d_ffn : 4 * dim,
          .output_gelu = output_gelu,
          .drop_path = drop_path,
          .attention_dim = attention_dim,
          .norm_eps = norm_eps,
          .naming = naming,
          .gate = gate};
}

GmlpOptions gmlp_paper_form(int64_t dim, double drop_path) {
  // clang-format off
  return {.image = 224, .patch = 16, .dim = dim, .layers = 30, .d_ffn = 6 * dim, .fc_dim = 0,
          .classes = 1000, .class_token = false, .positions = false, .output_gelu = false,
          .dropout = 0, .drop_path = drop_path, .gate = {.weight_bound = 1e-6}, .norm_eps = 1e-6,
          .naming = GmlpNaming::timm};
  // clang-format on
}

const std::vector<std::pair<std::string, GmlpOptions>>& gmlp_configurations() {
  static const std::vector<std::pair<std::string, GmlpOptions>> kConfigurations = {
      {"gmlp-4m", {.patch = 8, .dim = 512, .layers = 3}},
      {"gmlp-51m", {.patch = 8, .dim = 1024, .layers = 8}},
      {"gmlp-4m-heads4", {.patch = 8, .dim = 512, .layers = 3, .gate = {.heads = 4}}},
      {"gmlp-small", {.patch = 4, .dim = 64, .layers = 3, .fc_dim = 64}},
      // clang-format off
      {"gmlp-stem", {.stem = {{64, 1}, {128, 2}, {192, 2}}, .patch = 1, .dim = 192, .layers = 4,
                     .d_ffn = 768, .fc_dim = 0, .class_token = false, .output_gelu = false,
                     .dropout = 0, .gate = {.weight_bound = 1e-3}}},
      {"gmlp-hybrid", {.stem = hybrid_stem(), .patch = 1, .dim = 192, .layers = 3, .d_ffn = 384,
                       .fc_dim = 0, .class_token = false, .output_gelu = false, .dropout = 0,
                       .gate = {.weight_bound = 1e-3}}},
      // clang-format on
      {"gmlp-ti-p4", paper_form_for_cifar()},
  };
  return kConfigurations;
}

GmlpOptions gmlp_options(const std::string& name) {
  return options_named("gmlp", name, all_configurations());
}

std::vector<std::string> gmlp_names() { return names_of(all_configurations()); }

int64_t gmlp_weights(const GmlpOptions& o) {
  Rng rng(0);
  return nn::num_parameters(nn::unfilled([&] { return Gmlp(o, rng); }));
}

GmlpVision::GmlpVision(const GmlpOptions& o, Rng& rng)
    : patch_embed(channels_after(o.stem, o.channels), o.dim, {o.patch, o.patch}, rng,
                  {.stride = {o.patch, o.patch}}),
      dropout(o.dropout, rng),
      norm(o.dim, {.eps = o.norm_eps}),
      naming(o.naming),
      recompute(o.recompute) {
  check(!o.class_token || !o.gate.causal,
        "Gmlp: with causal gates, the class token comes first and sees no other token; use "
        ".class_token = false");
  const int64_t tokens = tokens_of(o);
  stem = stem_layers(o.stem, o.channels, rng);
  if (o.class_token) cls_token = normal_parameter({1, 1, o.dim}, 0.02, rng);
  if (o.positions) pos_embed = normal_parameter({1, tokens, o.dim}, 0.02, rng);
  blocks = gmlp_blocks(o.layers, o.block(), tokens, rng);
}

Tensor GmlpVision::operator()(const Tensor& images) const {
  Tensor x = images;
  for (const ConvNormGelu& layer : stem) x = layer(x);
  x = transpose(flatten(patch_embed(x), 2), 1, 2);  // (B,D,H',W') -> (B,P,D)
  if (cls_token.defined()) x = cat({expand(cls_token, {x.size(0), 1, x.size(2)}), x}, 1);
  if (pos_embed.defined()) x = x + pos_embed;
  x = dropout(x);
  // If only token 0 is used, the last block need not compute the others: this saves two thirds of
  // the block and gives the same gradients.
  for (size_t i = 0; i < blocks.size(); ++i) {
    bool last = cls_token.defined() && i + 1 == blocks.size();
    auto block = [&block = blocks[i], count = last ? 1 : x.size(1)](std::span<const Tensor> in) {
      return block.first(in[0], count);
    };
    x = nn::recomputed(recompute, {x}, block);
  }
  return cls_token.defined() ? norm(select(x, 1, 0)) : mean(norm(x), 1);
}

Gmlp::Gmlp(const GmlpOptions& o, Rng& rng)
    : options(o), model(o, rng), head(o.fc_dim ? o.fc_dim : o.dim, o.classes, rng) {
  if (o.fc_dim) fc_1.emplace(o.dim, o.fc_dim, rng);
}

Tensor Gmlp::operator()(const Tensor& images) const {
  check_images("Gmlp", images, options);
  Tensor x = model(images);
  if (fc_1) x = (*fc_1)(x, {.activation = Activation::gelu});
  return head(x);
}

std::string Gmlp::summary() const {
  return fmt::format("{} blocks on {} tokens of {} channels{}", options.layers, tokens_of(options),
                     options.dim, behind(options.stem));
}

int64_t Gmlp::patch_size() const { return options.patch * pixels_per_place(options.stem); }

Heatmaps Gmlp::heatmaps(const Tensor&) const {
  const std::string places = options.stem.empty() ? "patches" : "places of the stem's output";
  const std::string tokens = options.class_token ? "Token 0 is the class token, the others are the "
                                                 : "The tokens are the ";
  return spatial_heatmaps(model.blocks, tokens + places + " in reading order.");
}

}  // namespace tern::models
