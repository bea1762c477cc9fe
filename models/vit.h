// The Vision Transformer ("An Image is Worth 16x16 Words", Dosovitskiy et al. 2021) with the names
// and the order of timm's VisionTransformer, so that the states of its vit_* models load. B images,
// P patches, R prefix tokens (the class token and registers), N = R + P tokens, D channels, H
// heads.
//
//   image (B,C,S,S) -> patches by a convolution (B,P,D) -> prefix tokens before them, positions,
//   dropout -> L blocks -> norm -> token 0, or the mean of the patches -> head
//
//   block: x = x + proj(attention(qkv(norm1(x))));  x = x + fc2(GELU(fc1(norm2(x))))
//
// Names: cls_token, pos_embed, patch_embed.proj, blocks.I.{norm1, attn.qkv, attn.proj, norm2,
// mlp.fc1, mlp.fc2}, norm (fc_norm behind the mean), head; where the options ask for them
// reg_token, norm_pre, blocks.I.{ls1, ls2}.gamma and fc_1, the hidden layer of a head.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/models/heatmaps.h"
#include "tern/nn/nn.h"

namespace tern::models {

enum class VitPositions {
  learned,
  sincos,  ///< fixed: nn::sincos_2d_positions for the patches, 0 for prefix tokens
  none,
};
enum class VitPooling {
  token,    ///< token 0
  average,  ///< of the patches
};
enum class VitFinalNorm {
  usual,   ///< of the tokens where one is taken, of the mean where they are averaged
  tokens,  ///< before pooling: `norm`
  pooled,  ///< behind it: `fc_norm`
  none,
};

struct VitOptions {
  int64_t image = 224, channels = 3;  ///< height and width, and colours, of what comes in
  int64_t patch = 16;
  int64_t dim = 768, layers = 12, heads = 12;
  int64_t mlp_dim = 0;     ///< 0: four times dim
  int64_t fc_dim = 0;      ///< units, with GELU, of a hidden layer of the head; 0: none
  int64_t classes = 1000;  ///< 0: no head, the pooled tokens are the result
  bool class_token = true;
  int64_t registers = 0;  ///< more prefix tokens (Darcet et al. 2024)
  VitPositions positions = VitPositions::learned;
  double position_std = 0.02;       ///< of learned positions at the start
  bool positions_on_prefix = true;  ///< false: the patches alone have positions
  VitPooling pooling = VitPooling::token;
  bool norm_first =
      true;               ///< false: norms behind the sums (post-norm), as in the first Transformer
  bool norm_pre = false;  ///< a norm before the blocks, and patches without bias, as in CLIP
  VitFinalNorm final_norm = VitFinalNorm::usual;
  double eps = 1e-6;  ///< of all norms
  bool qkv_bias = true;
  double layer_scale = 0;  ///< start of a factor a channel on each branch (0: none; Touvron 2021)
  Activation activation = Activation::gelu;
  double dropout = 0;  ///< of the next four, unless they say otherwise
  std::optional<double> position_dropout = {}, attention_dropout = {}, projection_dropout = {},
                        mlp_dropout = {};
  double drop_path = 0;  ///< stochastic depth of the last block; the others' rises to it from 0
  nn::Recompute recompute = nn::Recompute::none;  ///< of the blocks
};

/// Names and their options. timm's, for ImageNet: vit_{tiny,small,base,large}_patch16_224,
/// vit_huge_patch14_224.
const std::vector<std::pair<std::string, VitOptions>>& vit_configurations();
/// For images of 32 x 32 and 10 classes, patches of 4: vit-lite-7-4 ("Escaping the Big Data
/// Paradigm", Hassani et al. 2021), vit-tiny-p4 (the width and depth of Ti, a hidden layer in the
/// head), slides-vit (PyTorch's TransformerEncoder: post-norm, ReLU, dropout 0.1; 8 heads,
/// positions as an Embedding starts, token 0, one linear head).
const std::vector<std::pair<std::string, VitOptions>>& vit_cifar_configurations();
/// The options of one of these names. Error that lists them if there is none.
VitOptions vit_options(const std::string& name);
std::vector<std::string> vit_names();

/// Number of trained values of Vit(options), without making it.
int64_t vit_weights(const VitOptions& options);

/// The options that the shapes of a state (timm's names) tell, for a model that loads it with every
/// weight. `heads` is not among them; 0: channels of 64 a head, or 80 to 104 as timm's larger
/// models have. Learned positions are taken, a square image, pooling by token 0 unless there is a
/// fc_norm or no class token. IoError that names what is missing or no ViT has.
VitOptions vit_options_of(const NamedTensors& state, int64_t heads = 0);

struct VitAttention {
  nn::Linear qkv, proj;
  int64_t heads;
  double dropout;
  bool training = true;
  mutable Rng rng;  // drawing does not change what the layer is

  VitAttention(const VitOptions& options, Rng& rng);
  /// x (B,N,D) -> the heads' contexts side by side (B,count,D), of the first `count` tokens. Where
  /// `weights` is given, which needs count = N, it gets the probabilities (B,H,N,N).
  Tensor context(const Tensor& x, int64_t count, Tensor* weights = nullptr) const;
  static void fields(auto& m, auto&& visit) {
    visit("qkv", m.qkv);
    visit("proj", m.proj);
    visit("training", m.training);
    visit("rng", m.rng);
  }
};

/// What comes between a branch and its sum: dropout, LayerScale, stochastic depth.
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

  /// `depth` in [0, 1]: how deep the block lies, for stochastic depth.
  VitBlock(const VitOptions& options, double depth, Rng& rng);
  Tensor operator()(const Tensor& x) const { return first(x, x.size(1)); }  ///< (B,N,D) -> same
  /// The first `count` tokens of the result, with no work for the others beyond keys and values.
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
  nn::Conv2d patch_embed;
  nn::Dropout dropout;
  std::optional<nn::LayerNorm> norm_pre, norm, fc_norm;
  std::vector<VitBlock> blocks;
  std::optional<nn::Linear> fc_1, head;

  Vit(const VitOptions& options, Rng& rng);
  Tensor operator()(const Tensor& images) const;
  /// Weights of every layer, (B, H, N, N) each: how much token n (column) gives to token m (row).
  std::vector<Tensor> attention_maps(const Tensor& images) const;
  int64_t prefix_tokens() const { return options.class_token + options.registers; }
  // For reports, see heatmaps.h.
  std::string summary() const;
  int64_t patch_size() const { return options.patch; }
  Heatmaps heatmaps(const Tensor& images) const;     ///< how alike the learned positions are
  PatchMaps patch_maps(const Tensor& images) const;  ///< rollout, and attention of every head
  static void fields(auto& m, auto&& visit) {
    visit("cls_token", m.cls_token);
    visit("reg_token", m.reg_token);
    if (m.fixed_positions.defined())
      visit("pos_embed", m.fixed_positions);
    else
      visit("pos_embed", m.pos_embed);
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

/// Loads the state of a vit_* model (timm's names). Positions for another size of image are resized
/// (nn::resize_positions), those of prefix tokens kept; all else must fit, as in load_state_dict.
void load_vit(Vit& model, const NamedTensors& state);

/// How much each token of the input gives to each token of the result, through all layers and the
/// sums beside them: the product of (mean over the heads + identity) / 2, the last layer's first.
/// attention (B,H,N,N) a layer -> (B,N,N); rows sum to 1 ("Quantifying Attention Flow in
/// Transformers", Abnar & Zuidema 2020, section 3).
Tensor attention_rollout(const std::vector<Tensor>& attention);

}  // namespace tern::models
