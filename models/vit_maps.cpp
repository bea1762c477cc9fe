// A ViT's maps for reports: similarity of learned positions, attention of every head, and attention
// rollout.
#include "tern/core/tape/autograd.h"
#include "tern/models/vit.h"

namespace tern::models {

Heatmaps Vit::heatmaps(const Tensor&) const {
  if (!pos_embed.defined()) return {};
  NoGradGuard no_grad;
  const Tensor table = squeeze(pos_embed, 0);
  const Tensor directions = table / maximum(tern::norm(table, 2, {1}, true), 1e-12);
  Heatmaps out{"Positions",
               "Row m, column n: the cosine of the angle between the embeddings of "
               "positions m and n. ",
               {}};
  const int64_t before = options.positions_on_prefix ? prefix_tokens() : 0;
  out.caption += before == 0 ? "They are the patches in reading order."
                 : before == 1
                     ? "Position 0 is the class token's, the others are the patches in reading "
                       "order."
                     : fmt::format(
                           "The first {} are the prefix tokens', the others are the "
                           "patches in reading order.",
                           before);
  out.maps.push_back(
      {"All positions", unsqueeze(matmul(directions, transpose(directions, 0, 1)), 0)});
  return out;
}

PatchMaps Vit::patch_maps(const Tensor& images) const {
  NoGradGuard no_grad;
  const int64_t prefix = prefix_tokens(), side = patches_per_side(options);
  const bool token = options.pooling == VitPooling::token;
  // Rows of classified tokens, columns of patches: (..., N, N) -> (..., side, side).
  auto on_grid = [&](const Tensor& a) {
    const Tensor patches = narrow(a, -1, prefix, side * side);
    const Tensor looked =
        token ? select(patches, -2, 0) : mean(narrow(patches, -2, prefix, side * side), {-2});
    return unflatten(looked, -1, {side, side});
  };
  const std::vector<Tensor> attention = attention_maps(images);
  PatchMaps out{"Attention", "", {}};
  out.caption = fmt::format(
      "How much {} takes from each patch: head by head in each layer, and by rollout through all "
      "layers (the product of the heads' means, each with the identity added).",
      token ? "the token that is classified" : "the mean of the patches");
  if (attention.empty()) return out;
  out.maps.push_back({"Rollout", unsqueeze(on_grid(attention_rollout(attention)), 1)});
  for (const Tensor& a : attention)
    out.maps.push_back(
        {fmt::format("Layer {}", out.maps.size()), on_grid(a), head_labels(options.heads)});
  return out;
}

Tensor attention_rollout(const std::vector<Tensor>& attention) {
  check(!attention.empty(), "attention_rollout: needs at least one layer");
  const Shape first = attention[0].shape();
  Tensor flow;
  for (const Tensor& a : attention) {
    check(a.shape() == first && a.ndim() == 4 && a.size(2) == a.size(3),
          "attention_rollout: needs (B, H, N, N) of every layer, got {} and {}", first, a.shape());
    const Tensor with_sum = mean(a, 1) + eye(a.size(2), -1, a.dtype());
    const Tensor layer = with_sum / sum(with_sum, -1, true);
    flow = flow.defined() ? matmul(layer, flow) : layer;
  }
  return flow;
}

}  // namespace tern::models
