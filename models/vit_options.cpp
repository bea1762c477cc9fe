// Named ViT configurations, checks of options, and the number of weights.
#include "tern/models/parts.h"
#include "tern/models/vit.h"

namespace tern::models {
namespace {

// A ViT for ImageNet: 224 x 224 pixels, 1000 classes, MLPs of four times the width.
VitOptions imagenet(int64_t patch, int64_t dim, int64_t layers, int64_t heads) {
  return {.patch = patch, .dim = dim, .layers = layers, .heads = heads};
}

void check_options(const VitOptions& o) {
  patches_per_side(o);
  check(o.channels > 0 && o.dim > 0 && o.heads > 0 && o.dim % o.heads == 0,
        "Vit: {} colours, {} channels; channels must divide into {} heads", o.channels, o.dim,
        o.heads);
  check(o.layers >= 0 && o.mlp_dim >= 0 && o.fc_dim >= 0 && o.classes >= 0 && o.registers >= 0,
        "Vit: a number is negative: {} layers, {} units, {} in the head, {} classes, {} registers",
        o.layers, o.mlp_dim, o.fc_dim, o.classes, o.registers);
  check(o.class_token || o.registers > 0 || o.pooling == VitPooling::average,
        "Vit: without a class token there is no token to classify; pool the average");
  check(o.positions != VitPositions::sincos || o.dim % 4 == 0,
        "Vit: sin-cos positions need a multiple of 4 channels, got {}", o.dim);
}

std::vector<std::pair<std::string, VitOptions>> all_vits() {
  auto all = vit_cifar_configurations();
  all.insert(all.end(), vit_configurations().begin(), vit_configurations().end());
  return all;
}

}  // namespace

const std::vector<std::pair<std::string, VitOptions>>& vit_configurations() {
  static const std::vector<std::pair<std::string, VitOptions>> kConfigurations = {
      {"vit_tiny_patch16_224", imagenet(16, 192, 12, 3)},
      {"vit_small_patch16_224", imagenet(16, 384, 12, 6)},
      {"vit_base_patch16_224", imagenet(16, 768, 12, 12)},
      {"vit_large_patch16_224", imagenet(16, 1024, 24, 16)},
      {"vit_huge_patch14_224", imagenet(14, 1280, 32, 16)},
  };
  return kConfigurations;
}

const std::vector<std::pair<std::string, VitOptions>>& vit_cifar_configurations() {
  static const std::vector<std::pair<std::string, VitOptions>> kConfigurations = {
      // clang-format off
      {"vit-lite-7-4", {.image = 32, .patch = 4, .dim = 256, .layers = 7, .heads = 4,
                        .mlp_dim = 512, .classes = 10}},
      {"vit-hybrid", {.image = 32, .stem = hybrid_stem(), .patch = 1, .dim = 192, .layers = 2,
                      .heads = 6, .mlp_dim = 384, .classes = 10, .class_token = false,
                      .pooling = VitPooling::average, .final_norm = VitFinalNorm::tokens}},
      {"vit-tiny-p4", {.image = 32, .patch = 4, .dim = 192, .layers = 12, .heads = 3,
                       .fc_dim = 256, .classes = 10, .dropout = 0.1}},
      {"slides-vit", {.image = 32, .patch = 4, .dim = 256, .layers = 6, .heads = 8, .classes = 10,
                      .position_std = 1, .norm_first = false, .final_norm = VitFinalNorm::none,
                      .eps = 1e-5, .activation = Activation::relu, .dropout = 0.1,
                      .position_dropout = 0}},
      // clang-format on
  };
  return kConfigurations;
}

VitOptions vit_options(const std::string& name) { return options_named("vit", name, all_vits()); }

std::vector<std::string> vit_names() { return names_of(all_vits()); }

int64_t patches_per_side(const VitOptions& o) {
  return patches_after(o.stem, o.image, o.patch, "Vit");
}

int64_t vit_weights(const VitOptions& o) {
  check_options(o);
  const int64_t d = o.dim, mlp = o.mlp_dim ? o.mlp_dim : 4 * d, norm = 2 * d;
  const int64_t side = patches_per_side(o), prefix = o.class_token + o.registers;
  auto linear = [](int64_t in, int64_t out, bool bias = true) { return (in + bias) * out; };
  int64_t n = stem_weights(o.stem, o.channels) + prefix * d +
              linear(channels_after(o.stem, o.channels) * o.patch * o.patch, d, !o.norm_pre);
  if (o.positions == VitPositions::learned)
    n += (side * side + (o.positions_on_prefix ? prefix : 0)) * d;
  n += o.layers * (2 * norm + linear(d, 3 * d, o.qkv_bias) + linear(d, d) + linear(d, mlp) +
                   linear(mlp, d) + (o.layer_scale != 0 ? 2 * d : 0));
  n += (o.norm_pre + (o.final_norm != VitFinalNorm::none)) * norm;
  if (o.fc_dim > 0) n += linear(d, o.fc_dim);
  return o.classes > 0 ? n + linear(o.fc_dim ? o.fc_dim : d, o.classes) : n;
}

}  // namespace tern::models
