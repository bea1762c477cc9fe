// The block of gMLP ("Pay Attention to MLPs", Liu et al. 2021), for images (models/gmlp.h) and for
// text (models/gmlp_text.h). B examples, N tokens, D channels.
//
//   x + GELU'(V(sgu(GELU(U(LN(x))))))     U: D -> d_ffn, V: d_ffn/2 -> D
//
// GELU' is the identity in the paper (.output_gelu). With .attention_dim it is a block of aMLP: a
// tiny attention on LN(x) is added to what the gate multiplies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/models/heatmaps.h"
#include "tern/nn/nn.h"

namespace tern::models {

/// What weights are called: as in the post's network ("blocks.layers.0.channel_proj_U.0.weight"),
/// or as in timm's mlp_mixer.py ("blocks.0.mlp_channels.fc1.weight").
enum class GmlpNaming { post, timm };

/// The names in which they differ, those of the whole first.
struct GmlpNames {
  const char *model, *patches, *blocks;
  const char *up, *gate, *gate_weight_prefix, *down;
};
const GmlpNames& gmlp_names_of(GmlpNaming naming);

struct GmlpBlockOptions {
  int64_t dim = 512, d_ffn = 3072;
  bool output_gelu = false;
  double drop_path = 0;       ///< stochastic depth of the last block; the others' rises to it
  int64_t attention_dim = 0;  ///< channels of the tiny attention of aMLP (64); 0: none
  double norm_eps = 1e-5;     ///< of the norm before U
  GmlpNaming naming = GmlpNaming::timm;
  nn::SpatialGatingOptions gate = {};
};

/// What a causal block keeps of the tokens so far; a value.
struct GmlpBlockCache {
  nn::SpatialGatingCache gate;
  nn::KeyValueCache attention;

  GmlpBlockCache select_rows(const Tensor& rows) const;
};

struct GmlpBlock {
  nn::LayerNorm norm;
  nn::Linear channel_proj_u;
  nn::SpatialGatingUnit sgu;
  std::optional<nn::TinyAttention> attention;
  nn::Linear channel_proj_v;
  std::optional<nn::DropPath> drop_path;
  Activation output;
  GmlpNaming naming;

  /// `depth` in [0, 1]: how deep the block lies, for stochastic depth.
  GmlpBlock(const GmlpBlockOptions& options, int64_t tokens, double depth, Rng& rng);
  /// (B,N,D) -> same. `real` u8 (B,N), where given: the tokens that are no padding (not 0); what
  /// the others hold changes no token but themselves.
  Tensor operator()(const Tensor& x, const Tensor& real = {}) const;
  /// The first `count` tokens of the result, with no work for the others beyond their half v.
  Tensor first(const Tensor& x, int64_t count) const;
  /// The next tokens of a causal block, behind those of the cache, to which they are added.
  Tensor step(const Tensor& x, GmlpBlockCache& cache) const;

  static void fields(auto& m, auto&& visit) {
    const GmlpNames& names = gmlp_names_of(m.naming);
    visit("norm", m.norm);
    visit(names.up, m.channel_proj_u);
    visit(names.gate, m.sgu);
    visit("attn", m.attention);
    visit(names.down, m.channel_proj_v);
    visit("drop_path", m.drop_path);
  }

 private:
  Tensor finished(const Tensor& x, const Tensor& gated) const;
};

/// `layers` of them, one behind the other.
std::vector<GmlpBlock> gmlp_blocks(int64_t layers, const GmlpBlockOptions& options, int64_t tokens,
                                   Rng& rng);

/// How many weights a block of these options has, without making it.
int64_t gmlp_block_weights(const GmlpBlockOptions& options, int64_t tokens);

/// The spatial matrix of every block, (N, N) or (H, N, N), without history.
std::vector<Tensor> spatial_weights(const std::vector<GmlpBlock>& blocks);
/// The same as heatmaps, (1, N, N) or (H, N, N). `tokens` ends the caption: what they are.
Heatmaps spatial_heatmaps(const std::vector<GmlpBlock>& blocks, const std::string& tokens);

}  // namespace tern::models
