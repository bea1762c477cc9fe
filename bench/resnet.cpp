#include "tern/bench/cases.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

/// A convolution without bias and the batch norm of its result.
struct ConvNorm {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  ConvNorm(int64_t in, int64_t out, int64_t kernel, int64_t stride, Rng& rng)
      : conv(in, out, kernel, rng, {.stride = stride, .padding = kernel / 2}, nn::Bias::no),
        norm(out) {}
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
  static void fields(auto& m, auto&& visit) { visit("conv", m.conv), visit("norm", m.norm); }
};

struct BasicBlock {
  ConvNorm first, second;
  std::optional<ConvNorm> shortcut;
  BasicBlock(int64_t in, int64_t out, int64_t stride, Rng& rng)
      : first(in, out, 3, stride, rng), second(out, out, 3, 1, rng) {
    if (stride != 1 || in != out) shortcut.emplace(in, out, 1, stride, rng);
  }
  Tensor operator()(const Tensor& x) const {
    return relu(second(relu(first(x))) + (shortcut ? (*shortcut)(x) : x));
  }
  static void fields(auto& m, auto&& visit) {
    visit("first", m.first), visit("second", m.second), visit("shortcut", m.shortcut);
  }
};

/// ResNet-18 (He et al. 2016) for pictures of 32 x 32: the stem is 3 x 3 and nothing is pooled.
struct ResNet18 {
  ConvNorm stem;
  std::vector<BasicBlock> blocks;
  nn::Linear head;
  explicit ResNet18(Rng& rng) : stem(3, 64, 3, 1, rng), head(512, 10, rng) {
    for (int64_t in = 64, out = 64; out <= 512; in = out, out *= 2) {
      blocks.emplace_back(in, out, in == out ? 1 : 2, rng);
      blocks.emplace_back(out, out, 1, rng);
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = relu(stem(x));
    for (const BasicBlock& block : blocks) y = block(y);
    return head(mean(y, {2, 3}));
  }
  static void fields(auto& m, auto&& visit) {
    visit("stem", m.stem), visit("blocks", m.blocks), visit("head", m.head);
  }
};

Workload make_resnet(nn::Recompute) {
  Rng rng(0);
  return classify(std::make_shared<ResNet18>(rng), randn({64, 3, 32, 32}, rng), rng);
}

}  // namespace

std::vector<Case> resnet_cases() { return {{"resnet18/b64", 64, make_resnet}}; }

}  // namespace tern::bench
