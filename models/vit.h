// The Vision Transformer ("An Image is Worth 16x16 Words", Dosovitskiy et al. 2021), with the names
// and the order of timm's VisionTransformer, so that states of its vit_* models load. B images, P
// patches, R prefix tokens (class token and registers), N = R + P tokens, D channels, H heads.
//
//   image (B,C,S,S) -> [stem] -> patches by a convolution (B,P,D) -> prefix tokens in front,
//   positions, dropout -> L blocks -> norm -> token 0, or the mean of the patches -> head
//
//   block: x = x + proj(attention(qkv(norm1(x))));  x = x + fc2(GELU(fc1(norm2(x))))
//
// Names: cls_token, pos_embed, patch_embed.proj, blocks.I.{norm1, attn.qkv, attn.proj, norm2,
// mlp.fc1, mlp.fc2}, norm (fc_norm if after the mean), head; with the options for them stem.I.conv,
// stem.I.norm, reg_token, norm_pre, blocks.I.{ls1, ls2}.gamma and fc_1, the head's hidden layer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/models/heatmaps.h"
#include "tern/models/stem.h"
#include "tern/nn/nn.h"

namespace tern::models {

enum class VitPositions {
  learned,
  sincos,  ///< fixed: nn::sincos_2d_positions for the patches, 0 for prefix tokens
  none,
};
enum class VitPooling {
  token,    ///< token 0
  average,  ///< the mean of the patches
};
enum class VitFinalNorm {
  usual,   ///< tokens for pooling by token, pooled for average
  tokens,  ///< before pooling: `norm`
  pooled,  ///< after pooling: `fc_norm`
  none,
};

struct VitOptions {
  int64_t image = 224, channels = 3;  ///< size (height = width) and colour channels of the input
  Stem stem = {};                     ///< timm's models have none
  int64_t patch = 16;                 ///< in pixels of the stem's output
  int64_t dim = 768, layers = 12, heads = 12;
  int64_t mlp_dim = 0;     ///< 0: four times dim
  int64_t fc_dim = 0;      ///< units of the head's hidden layer, with GELU; 0: none
  int64_t classes = 1000;  ///< 0: no head; returns the pooled tokens, or the units of fc_dim
  bool class_token = true;
  int64_t registers = 0;  ///< more prefix tokens (Darcet et al. 2024)
  VitPositions positions = VitPositions::learned;
  double position_std = 0.02;       ///< initial deviation of learned positions
  bool positions_on_prefix = true;  ///< false: only patches have positions
  VitPooling pooling = VitPooling::token;
  bool norm_first =
      true;               ///< false: norms behind the sums (post-norm), as in the first Transformer
  bool norm_pre = false;  ///< a norm before the blocks and no patch bias, as in CLIP
  VitFinalNorm final_norm = VitFinalNorm::usual;
  double eps = 1e-6;  ///< of all norms
  bool qkv_bias = true;
  double layer_scale = 0;  ///< initial factor per channel on each branch (0: none; Touvron 2021)
  Activation activation = Activation::gelu;
  double dropout = 0;  ///< default of the next four
  std::optional<double> position_dropout = {}, attention_dropout = {}, projection_dropout = {},
                        mlp_dropout = {};
  double drop_path = 0;  ///< stochastic depth of the last block; rises linearly from 0
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks
};

/// Names and options of timm's models for ImageNet: vit_{tiny,small,base,large}_patch16_224,
/// vit_huge_patch14_224.
const std::vector<std::pair<std::string, VitOptions>>& vit_configurations();
/// For 32 x 32 images, 10 classes and patches of 4: vit-lite-7-4 ("Escaping the Big Data Paradigm",
/// Hassani et al. 2021), vit-tiny-p4 (width and depth of Ti, a hidden layer in the head),
/// slides-vit (PyTorch's TransformerEncoder: post-norm, ReLU, dropout 0.1; 8 heads, positions
/// initialised as an Embedding, token 0, one linear head). vit-hybrid has hybrid_stem() instead of
/// patches, and classifies the mean of the tokens.
const std::vector<std::pair<std::string, VitOptions>>& vit_cifar_configurations();
/// The options with this name. If there is none, an Error lists the names.
VitOptions vit_options(const std::string& name);
std::vector<std::string> vit_names();

/// The number of trained values of Vit(options), without creating it.
int64_t vit_weights(const VitOptions& options);
/// How many patches are side by side. Error if they do not tile the image, or the stem's output.
int64_t patches_per_side(const VitOptions& options);

/// The options inferred from the shapes of a state (timm's names), for a model that uses all its
/// weights. Shapes do not tell `heads`; 0 means 64 channels per head, or 80 to 104 as in timm's
/// larger models, and is an Error for 64, 1152 and 1536 channels, which timm splits in other ways.
/// Assumes learned positions, a square image, pooling by token 0 unless there is a fc_norm or no
/// class token, and timm's eps: 1e-6, or 1e-5 with norm_pre. CLIP's models with "quickgelu" in
/// their names look the same, but have an activation that Vit does not have. IoError that names a
/// missing weight, or one that no ViT has; with a stem, since shapes do not tell its strides; and
/// without a final norm, since they do not tell whether such a model is post-norm.
VitOptions vit_options_of(const NamedTensors& state, int64_t heads = 0);

struct VitAttention {
  nn::Linear qkv, proj;
  int64_t heads;
  double dropout;
  nn::TrainingMode training = true;
  mutable Rng rng;  // drawing does not count as a change of the layer

  VitAttention(const VitOptions& options, Rng& rng);
  /// x (B,N,D) -> the heads' contexts side by side (B,count,D), for the first `count` tokens.
  /// `weights`, if given, receives the probabilities (B,H,N,N) and needs count = N.
  Tensor context(const Tensor& x, int64_t count, Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    visit("qkv", m.qkv);
    visit("proj", m.proj);
    visit("training", m.training);
    visit("rng", m.rng);
  }
};

/// Between a branch and its sum: dropout, LayerScale, stochastic depth.
struct VitBranch {
  nn::Parameter gamma;  ///< (D), or undefined
  nn::Dropout dropout;
  nn::DropPath drop_path;

  VitBranch(const VitOptions& options, double dropout, double depth, Rng& rng);
  /// x + drop_path(gamma * dropout(last(h)))
  Tensor add(const Tensor& x, const nn::Linear& last, const Tensor& h) const;
};

struct VitBlock {
  nn::LayerNorm norm1, norm2;
  VitAttention attn;
  nn::Linear fc1, fc2;
  nn::Dropout hidden_dropout;
  VitBranch branch1, branch2;
  Activation activation;
  bool norm_first;

  /// `depth` in [0, 1]: the relative depth of the block, for stochastic depth.
  VitBlock(const VitOptions& options, double depth, Rng& rng);
  Tensor operator()(const Tensor& x) const { return first(x, x.size(1)); }  ///< (B,N,D) -> same
  /// The first `count` tokens of the result. For the others only keys and values are computed.
  Tensor first(const Tensor& x, int64_t count, Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    visit("norm1", m.norm1);
    visit("attn", m.attn);
    visit("ls1.gamma", m.branch1.gamma);
    visit("proj_drop", m.branch1.dropout);
    visit("drop_path1", m.branch1.drop_path);
    visit("norm2", m.norm2);
    visit("mlp.fc1", m.fc1);
    visit("mlp.drop1", m.hidden_dropout);
    visit("mlp.fc2", m.fc2);
    visit("mlp.drop2", m.branch2.dropout);
    visit("ls2.gamma", m.branch2.gamma);
    visit("drop_path2", m.branch2.drop_path);
  }
};

/// Logits (B, classes) of images (B, channels, image, image).
struct Vit {
  VitOptions options;
  nn::Parameter cls_token, reg_token, pos_embed;
  nn::Buffer fixed_positions;
  std::vector<ConvNormGelu> stem;
  nn::Conv2d patch_embed;
  nn::Dropout dropout;
  std::optional<nn::LayerNorm> norm_pre, norm, fc_norm;
  std::vector<VitBlock> blocks;
  std::optional<nn::Linear> fc_1, head;

  Vit(const VitOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  /// Weights of every layer, (B, H, N, N) each: the weight of token n (column) in token m (row).
  [[nodiscard]] std::vector<Tensor> attention_maps(const Tensor& images) const;
  int64_t prefix_tokens() const { return options.class_token + options.registers; }
  // For reports, see heatmaps.h.
  std::string summary() const;
  int64_t patch_size() const { return options.patch * pixels_per_place(options.stem); }
  Heatmaps heatmaps(const Tensor& images) const;     ///< similarity of learned positions
  PatchMaps patch_maps(const Tensor& images) const;  ///< rollout, and the attention of every head
  static void fields(auto& m, auto&& visit) {
    visit("cls_token", m.cls_token);
    visit("reg_token", m.reg_token);
    if (m.fixed_positions.defined())
      visit("pos_embed", m.fixed_positions);
    else
      visit("pos_embed", m.pos_embed);
    visit("stem", m.stem);
    visit("patch_embed.proj", m.patch_embed);
    visit("pos_drop", m.dropout);
    visit("norm_pre", m.norm_pre);
    visit("blocks", m.blocks);
    visit("norm", m.norm);
    visit("fc_norm", m.fc_norm);
    visit("fc_1", m.fc_1);
    visit("head", m.head);
  }

 private:
  Tensor embed(const Tensor& images) const;
  Tensor classify(const Tensor& tokens) const;
};

/// Loads the state of a vit_* model (timm's names). Resizes positions for another image size
/// (nn::resize_positions), but not those of prefix tokens. All else must fit, as in
/// load_state_dict.
void load_vit(Vit& model, const NamedTensors& state);

/// How much each input token contributes to each token of the result, through all layers and
/// residual connections: the product of (mean over the heads + identity) / 2, last layer first.
/// attention (B,H,N,N) per layer -> (B,N,N); rows sum to 1 ("Quantifying Attention Flow in
/// Transformers", Abnar & Zuidema 2020, section 3).
Tensor attention_rollout(const std::vector<Tensor>& attention);

}  // namespace tern::models
