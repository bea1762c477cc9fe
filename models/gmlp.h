// gMLP for images ("Pay Attention to MLPs", Liu et al. 2021). B images, P patches, N tokens
// (P + 1 with a class token), D channels.
//
//   image (B,C,H,W) -> [stem] -> patches by a convolution (B,P,D) -> class token before them,
//   learned positions, dropout -> L blocks -> norm -> token 0 (or the mean) -> fc_1, GELU -> head
//
//   block: x + GELU(V(sgu(GELU(U(LN(x))))))     U: D -> d_ffn, V: d_ffn/2 -> D
//
// The defaults are the form with a class token and a GELU behind V; the paper has neither
// (.output_gelu = false, .class_token = false, .positions = false, .fc_dim = 0, stochastic depth,
// and a spatial matrix that starts near 0: .gate = {.weight_bound = 1e-6}).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/models/heatmaps.h"
#include "tern/nn/nn.h"

namespace tern::models {

/// A 3x3 convolution with padding 1, batch norm and GELU before the patches are cut.
struct StemLayer {
  int64_t channels = 64, stride = 1;
};

struct GmlpOptions {
  int64_t image = 32, channels = 3;  ///< height and width, and colours, of what comes in
  std::vector<StemLayer> stem = {};
  int64_t patch = 8;  ///< of what the stem gives
  int64_t dim = 512, layers = 3;
  int64_t d_ffn = 0;     ///< 0: four times dim
  int64_t fc_dim = 256;  ///< 0: the head follows the pooled tokens at once
  int64_t classes = 10;
  bool class_token = true;  ///< false: the mean of all tokens is classified
  bool positions = true;
  bool output_gelu = true;    ///< a second GELU, behind V
  double dropout = 0.1;       ///< after the positions
  double drop_path = 0;       ///< stochastic depth of the last block; the others' rises to it
  int64_t attention_dim = 0;  ///< channels of the tiny attention of aMLP (64); 0: none
  nn::SpatialGatingOptions gate = {};
};

/// Names and their options: gmlp-4m, gmlp-51m, gmlp-small, gmlp-stem.
const std::vector<std::pair<std::string, GmlpOptions>>& gmlp_configurations();
/// The options of one of these names.
GmlpOptions gmlp_options(const std::string& name);
std::vector<std::string> gmlp_names();

struct GmlpBlock {
  nn::LayerNorm norm;
  nn::Linear channel_proj_u;
  nn::SpatialGatingUnit sgu;
  std::optional<nn::TinyAttention> attention;
  nn::Linear channel_proj_v;
  std::optional<nn::DropPath> drop_path;
  Activation output;

  /// `depth` in [0, 1]: how deep the block lies, for stochastic depth.
  GmlpBlock(const GmlpOptions& options, int64_t tokens, double depth, Rng& rng);
  Tensor operator()(const Tensor& x) const { return first(x, x.size(1)); }  ///< (B,N,D) -> same
  /// The first `count` tokens of the result, with no work for the others beyond their half v.
  Tensor first(const Tensor& x, int64_t count) const;
  static void fields(auto& m, auto&& visit) {
    visit("norm", m.norm);
    visit("channel_proj_U.0", m.channel_proj_u);
    visit("sgu", m.sgu);
    visit("attn", m.attention);
    visit("channel_proj_V.0", m.channel_proj_v);
    visit("drop_path", m.drop_path);
  }
};

/// Convolution without bias, batch norm, GELU.
struct ConvNormGelu {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;

  ConvNormGelu(int64_t in, const StemLayer& layer, Rng& rng);
  Tensor operator()(const Tensor& x) const { return gelu(norm(conv(x))); }
  static void fields(auto& m, auto&& visit) {
    visit("conv", m.conv);
    visit("norm", m.norm);
  }
};

/// Everything up to the pooled tokens (B, D).
struct GmlpVision {
  std::vector<ConvNormGelu> stem;
  nn::Conv2d patch_embed;
  nn::Parameter cls_token, pos_embed;
  nn::Dropout dropout;
  std::vector<GmlpBlock> blocks;
  nn::LayerNorm norm;

  GmlpVision(const GmlpOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  static void fields(auto& m, auto&& visit) {
    visit("stem", m.stem);
    visit("patch_embed.proj", m.patch_embed);
    visit("cls_token", m.cls_token);
    visit("pos_embed", m.pos_embed);
    visit("dropout", m.dropout);
    visit("blocks.layers", m.blocks);
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
  /// The spatial matrix of every block, (N, N) or (H, N, N), without history: what the heatmaps
  /// show.
  std::vector<Tensor> spatial_weights() const;
  // For reports, see heatmaps.h.
  std::string summary() const;
  int64_t patch_size() const;
  Heatmaps heatmaps(const Tensor& images) const;
  static void fields(auto& m, auto&& visit) {
    visit("model", m.model);
    visit("fc_1", m.fc_1);
    visit("head", m.head);
  }
};

}  // namespace tern::models
