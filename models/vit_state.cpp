// Loads ViTs from timm's states: infers options from shapes, and resizes positions to another image
// size.
#include <cmath>

#include "tern/models/state_shapes.h"
#include "tern/models/vit.h"

namespace tern::models {
namespace {

// The side of a square of this many patches; 0 if it is not a square.
int64_t side_of(int64_t patches) {
  if (patches <= 0) return 0;
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  return side * side == patches ? side : 0;
}

int64_t usual_heads(int64_t dim) {
  for (int64_t large : {1280, 1408, 1664})  // huge, giant, gigantic
    if (dim == large) return 16;
  // timm's test_vit has heads of 32, vit_so400m of 72, vit_giantopt of 96.
  const bool other = dim == 64 || dim == 1152 || dim == 1536;
  check(dim % 64 == 0 && !other,
        "vit: the sizes do not tell how {} channels are split; give the number of heads", dim);
  return dim / 64;
}

void read_positions(const StateShapes& state, VitOptions& o) {
  const Tensor positions = state.find("pos_embed", 3);
  o.positions = positions.defined() ? VitPositions::learned : VitPositions::none;
  if (!positions.defined()) return;
  const int64_t tokens = positions.size(1), prefix = o.class_token + o.registers;
  o.positions_on_prefix = side_of(tokens - prefix) > 0;
  const int64_t side = side_of(o.positions_on_prefix ? tokens - prefix : tokens);
  check(side > 0,
        "vit: {} positions are not a square grid of patches, with or without {} prefix tokens",
        tokens, prefix);
  o.image = side * o.patch;
}

}  // namespace

VitOptions vit_options_of(const NamedTensors& tensors, int64_t heads) {
  const StateShapes state{tensors, "vit", "timm's VisionTransformer"};
  VitOptions o;
  check_io(!state.find("stem.0.conv.weight").defined(),
           "vit: the state has a stem (stem.0.conv.weight). Shapes do not tell its strides: make "
           "the VitOptions yourself");
  const Tensor patches = state.need("patch_embed.proj.weight", 4);
  check(patches.size(2) == patches.size(3), "vit: the patches are {} x {}, not square",
        patches.size(2), patches.size(3));
  o.dim = patches.size(0);
  o.channels = patches.size(1);
  o.patch = patches.size(2);
  o.heads = heads ? heads : usual_heads(o.dim);
  o.layers = 0;
  while (state.find(fmt::format("blocks.{}.norm1.weight", o.layers)).defined()) ++o.layers;
  o.mlp_dim = state.need("blocks.0.mlp.fc1.weight", 2).size(0);
  o.qkv_bias = state.find("blocks.0.attn.qkv.bias").defined();
  o.layer_scale = state.find("blocks.0.ls1.gamma").defined() ? 1 : 0;
  o.class_token = state.find("cls_token").defined();
  const Tensor registers = state.find("reg_token", 3);
  o.registers = registers.defined() ? registers.size(1) : 0;
  read_positions(state, o);
  o.norm_pre = state.find("norm_pre.weight").defined();
  if (o.norm_pre) o.eps = 1e-5;  // CLIP's; timm's other models have 1e-6
  const bool pooled = state.find("fc_norm.weight").defined();
  o.pooling = pooled || !o.class_token ? VitPooling::average : VitPooling::token;
  o.final_norm = pooled                                ? VitFinalNorm::pooled
                 : state.find("norm.weight").defined() ? VitFinalNorm::tokens
                                                       : VitFinalNorm::none;
  check_io(o.final_norm != VitFinalNorm::none,
           "vit: the state has no final norm (norm or fc_norm). Shapes do not tell whether such a "
           "model is post-norm, nor its activation: make the VitOptions yourself");
  const Tensor hidden = state.find("fc_1.weight", 2), head = state.find("head.weight", 2);
  o.fc_dim = hidden.defined() ? hidden.size(0) : 0;
  o.classes = head.defined() ? head.size(0) : 0;
  return o;
}

void load_vit(Vit& model, const NamedTensors& state) {
  const VitOptions& o = model.options;
  NamedTensors fitted = state;
  for (auto& [name, t] : fitted) {
    if (name != "pos_embed" || o.positions == VitPositions::none) continue;
    if (t.ndim() != 3 || t.size(0) != 1 || !is_float(t.dtype())) continue;
    const int64_t prefix = o.positions_on_prefix ? model.prefix_tokens() : 0;
    const int64_t side = patches_per_side(o), old = side_of(t.size(1) - prefix);
    if (old == side || old == 0) continue;  // it fits, or load_state_dict reports it
    t = unsqueeze(nn::resize_positions(squeeze(t, 0), side, side, {.prefix = prefix}), 0);
  }
  nn::load_state_dict(model, fitted);
}

}  // namespace tern::models
