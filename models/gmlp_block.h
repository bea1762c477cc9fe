// The block of gMLP ("Pay Attention to MLPs", Liu et al. 2021), for images (models/gmlp.h) and for
// text (models/gmlp_text.h). B examples, N tokens, D channels.
//
//   x + GELU'(V(sgu(GELU(U(LN(x))))))     U: D -> d_ffn, V: d_ffn/2 -> D
//
// GELU' is the identity in the paper (.output_gelu). With .attention_dim it is a block of aMLP: a
// tiny attention on LN(x) is added to the gate's factor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/models/heatmaps.h"
#include "tern/nn/nn.h"

namespace tern::models {

/// The names of weights: as in the post's network ("blocks.layers.0.channel_proj_U.0.weight") or in
/// timm's mlp_mixer.py ("blocks.0.mlp_channels.fc1.weight").
enum class GmlpNaming { post, timm };

/// The parts of names that differ between the two. The first line is for the whole model.
struct GmlpNames {
  const char *model, *patches, *blocks;
  const char *up, *gate, *gate_weight_prefix, *down;
};
const GmlpNames& gmlp_names_of(GmlpNaming naming);

struct GmlpBlockOptions {
  int64_t dim = 512, d_ffn = 3072;
  bool output_gelu = false;
  double drop_path = 0;       ///< stochastic depth of the last block; rises from 0
  int64_t attention_dim = 0;  ///< channels of the tiny attention of aMLP (64); 0: none
  double norm_eps = 1e-5;     ///< for the norm before U
  GmlpNaming naming = GmlpNaming::timm;
  nn::SpatialGatingOptions gate = {};
};

/// The state of a causal block after its earlier tokens; a value.
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

  /// `depth` in [0, 1]: the relative depth of the block, for stochastic depth.
  GmlpBlock(const GmlpBlockOptions& options, int64_t tokens, double depth, Rng& rng);
  /// (B,N,D) -> same. `real` u8 (B,N), if given, is 0 for padding; padding changes no other token.
  Tensor operator()(const Tensor& x, const Tensor& real = {}) const;
  /// The first `count` tokens of the result. For the others only their half v is computed.
  Tensor first(const Tensor& x, int64_t count) const;
  /// The next tokens of a causal block; they follow those in the cache and are added to it.
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

/// A stack of `layers` blocks.
std::vector<GmlpBlock> gmlp_blocks(int64_t layers, const GmlpBlockOptions& options, int64_t tokens,
                                   Rng& rng);

/// The number of weights of a block with these options, without creating it.
int64_t gmlp_block_weights(const GmlpBlockOptions& options, int64_t tokens);

/// The spatial matrix of every block, (N, N) or (H, N, N), without history.
[[nodiscard]] std::vector<Tensor> spatial_weights(const std::vector<GmlpBlock>& blocks);
/// The same as heatmaps, (1, N, N) or (H, N, N). `tokens` describes tokens in the caption.
Heatmaps spatial_heatmaps(const std::vector<GmlpBlock>& blocks, const std::string& tokens);

}  // namespace tern::models
