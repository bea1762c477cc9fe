// gMLP for images ("Pay Attention to MLPs", Liu et al. 2021). B images, P patches, N tokens
// (P + 1 with a class token), D channels.
//
//   image (B,C,H,W) -> [stem] -> patches by a convolution (B,P,D) -> class token in front, learned
//   positions, dropout -> L blocks -> norm -> token 0 (or the mean) -> fc_1, GELU -> head
//
//   block: x + GELU(V(sgu(GELU(U(LN(x))))))     models/gmlp_block.h
//
// By default the model has a class token and a GELU after V. The paper has neither, and no
// positions, dropout or fc_1. Its spatial matrices start near 0, and it uses stochastic depth: see
// gmlp_paper_form().
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/models/gmlp_block.h"
#include "tern/models/heatmaps.h"
#include "tern/models/stem.h"
#include "tern/nn/nn.h"

namespace tern::models {

struct GmlpOptions {
  int64_t image = 32, channels = 3;  ///< size (height = width) and colour channels of the input
  Stem stem = {};
  int64_t patch = 8;  ///< in pixels of the stem's output
  int64_t dim = 512, layers = 3;
  int64_t d_ffn = 0;     ///< 0: four times dim
  int64_t fc_dim = 256;  ///< 0: no fc_1 before the head
  int64_t classes = 10;
  bool class_token = true;  ///< false: classify the mean of all tokens
  bool positions = true;
  bool output_gelu = true;    ///< a second GELU, after V
  double dropout = 0.1;       ///< after the positions
  double drop_path = 0;       ///< stochastic depth of the last block; rises from 0
  int64_t attention_dim = 0;  ///< channels of the tiny attention of aMLP (64); 0: none
  nn::SpatialGatingOptions gate = {};
  double norm_eps = 1e-5;  ///< of all norms except the gates'
  GmlpNaming naming = GmlpNaming::post;
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks

  GmlpBlockOptions block() const;  ///< options of each block
};

/// The paper's network as in timm, with timm's names: 30 blocks of d_ffn = 6 dim, patches of 16 in
/// images of 224, 1000 classes. timm's weights load into it.
GmlpOptions gmlp_paper_form(int64_t dim, double drop_path);

/// For 32 x 32 images in ten classes: gmlp-4m, gmlp-51m, gmlp-4m-heads4 (gmlp-4m with 4 spatial
/// matrices per block), gmlp-small, gmlp-stem, gmlp-hybrid (behind hybrid_stem()), gmlp-ti-p4 (the
/// paper's form with D 128, patches of 4).
const std::vector<std::pair<std::string, GmlpOptions>>& gmlp_configurations();
/// The options with this name, or with timm's name gmlp_ti16_224, gmlp_s16_224 or gmlp_b16_224,
/// with the paper's stochastic depth.
GmlpOptions gmlp_options(const std::string& name);
std::vector<std::string> gmlp_names();  ///< all of them
/// The number of weights of a model with these options. Takes no memory.
int64_t gmlp_weights(const GmlpOptions& options);

/// The model up to the pooled tokens (B, D).
struct GmlpVision {
  std::vector<ConvNormGelu> stem;
  nn::Conv2d patch_embed;
  nn::Parameter cls_token, pos_embed;
  nn::Dropout dropout;
  std::vector<GmlpBlock> blocks;
  nn::LayerNorm norm;
  GmlpNaming naming;
  nn::Recompute recompute;

  GmlpVision(const GmlpOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  static void fields(auto& m, auto&& visit) {
    const GmlpNames& names = gmlp_names_of(m.naming);
    visit("stem", m.stem);
    visit(names.patches, m.patch_embed);
    visit("cls_token", m.cls_token);
    visit("pos_embed", m.pos_embed);
    visit("dropout", m.dropout);
    visit(names.blocks, m.blocks);
    visit("norm", m.norm);
  }
};

/// Logits (B, classes) of images (B, channels, image, image).
struct Gmlp {
  GmlpOptions options;
  GmlpVision model;
  std::optional<nn::Linear> fc_1;
  nn::Linear head;

  Gmlp(const GmlpOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  /// The spatial matrix of every block, (N, N) or (H, N, N), without history, as shown in heatmaps.
  [[nodiscard]] std::vector<Tensor> spatial_weights() const {
    return models::spatial_weights(model.blocks);
  }
  // For reports, see heatmaps.h.
  std::string summary() const;
  int64_t patch_size() const;
  Heatmaps heatmaps(const Tensor& images) const;
  static void fields(auto& m, auto&& visit) {
    visit(gmlp_names_of(m.options.naming).model, m.model);
    visit("fc_1", m.fc_1);
    visit("head", m.head);
  }
};

}  // namespace tern::models
