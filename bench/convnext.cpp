// Training step of a small ConvNeXt on 32 pictures of 32 x 32, built from layers of nn.
#include "tern/bench/cases.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

Tensor channels_last(const Tensor& x) { return permute(x, {0, 2, 3, 1}); }
Tensor channels_first(const Tensor& x) { return permute(x, {0, 3, 1, 2}); }

/// x + scale * down(gelu(up(norm(depthwise(x))))); norm and linear layers work on the channels.
struct ConvNextBlock {
  nn::Conv2d depthwise;
  nn::LayerNorm norm;
  nn::Linear up, down;
  nn::Parameter scale;
  ConvNextBlock(int64_t dim, Rng& rng)
      : depthwise(dim, dim, 7, rng, {.padding = 3, .groups = dim}),
        norm(dim, {.eps = 1e-6}),
        up(dim, 4 * dim, rng),
        down(4 * dim, dim, rng),
        scale(full({dim}, 1e-6)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = norm(channels_last(depthwise(x)));
    return x + channels_first(down(up(y, {.activation = Activation::gelu})) * scale);
  }
  static void fields(auto& m, auto&& visit) {
    visit("depthwise", m.depthwise), visit("norm", m.norm), visit("up", m.up);
    visit("down", m.down), visit("scale", m.scale);
  }
};

/// Halves height and width, after a norm over the channels.
struct Downsample {
  nn::LayerNorm norm;
  nn::Conv2d conv;
  Downsample(int64_t in, int64_t out, Rng& rng)
      : norm(in, {.eps = 1e-6}), conv(in, out, 2, rng, {.stride = 2}) {}
  Tensor operator()(const Tensor& x) const { return conv(channels_first(norm(channels_last(x)))); }
  static void fields(auto& m, auto&& visit) { visit("norm", m.norm), visit("conv", m.conv); }
};

struct Stage {
  std::optional<Downsample> downsample;
  std::vector<ConvNextBlock> blocks;
  Stage(int64_t in, int64_t out, int64_t depth, Rng& rng) {
    if (in != out) downsample.emplace(in, out, rng);
    for (int64_t i = 0; i < depth; ++i) blocks.emplace_back(out, rng);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = downsample ? (*downsample)(x) : x;
    for (const ConvNextBlock& block : blocks) y = block(y);
    return y;
  }
  static void fields(auto& m, auto&& visit) {
    visit("downsample", m.downsample), visit("blocks", m.blocks);
  }
};

/// A ConvNeXt (Liu et al. 2022) for pictures of 32 x 32: patches of 2 x 2 and three stages.
struct ConvNext {
  nn::Conv2d patches;
  nn::LayerNorm patch_norm;
  std::vector<Stage> stages;
  nn::LayerNorm norm;
  nn::Linear head;
  explicit ConvNext(Rng& rng)
      : patches(3, 96, 2, rng, {.stride = 2}),
        patch_norm(96, {.eps = 1e-6}),
        norm(384, {.eps = 1e-6}),
        head(384, 10, rng) {
    for (int64_t in = 96, out = 96; out <= 384; in = out, out *= 2)
      stages.emplace_back(in, out, 3, rng);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = channels_first(patch_norm(channels_last(patches(x))));
    for (const Stage& stage : stages) y = stage(y);
    return head(norm(mean(y, {2, 3})));
  }
  static void fields(auto& m, auto&& visit) {
    visit("patches", m.patches), visit("patch_norm", m.patch_norm), visit("stages", m.stages);
    visit("norm", m.norm), visit("head", m.head);
  }
};

Workload make_convnext(nn::Recompute) {
  Rng rng(0);
  return classify(std::make_shared<ConvNext>(rng), randn({32, 3, 32, 32}, rng), rng);
}

}  // namespace

std::vector<Case> convnext_cases() { return {{"convnext/b32", 32, make_convnext}}; }

}  // namespace tern::bench
