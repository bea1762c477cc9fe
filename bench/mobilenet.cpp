// Training step of a MobileNetV2 on 64 pictures of 32 x 32, built from layers of nn.
#include "tern/bench/cases.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

/// A convolution without bias, followed by batch norm.
struct ConvNorm {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  ConvNorm(int64_t in, int64_t out, int64_t kernel, Rng& rng, Conv2dOptions options = {})
      : conv(in, out, kernel, rng, options, nn::Bias::no), norm(out) {}
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
  static void fields(auto& m, auto&& visit) { visit("conv", m.conv), visit("norm", m.norm); }
};

/// Expands x to six times its channels, applies a depthwise 3 x 3 convolution, and projects to
/// `out` channels; plus x if the shapes are equal.
struct InvertedResidual {
  ConvNorm expand, depthwise, project;
  bool residual;
  InvertedResidual(int64_t in, int64_t out, int64_t stride, Rng& rng)
      : expand(in, 6 * in, 1, rng),
        depthwise(6 * in, 6 * in, 3, rng, {.stride = stride, .padding = 1, .groups = 6 * in}),
        project(6 * in, out, 1, rng),
        residual(stride == 1 && in == out) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = project(relu6(depthwise(relu6(expand(x)))));
    return residual ? x + y : y;
  }
  static void fields(auto& m, auto&& visit) {
    visit("expand", m.expand), visit("depthwise", m.depthwise), visit("project", m.project);
  }
};

/// A MobileNetV2 (Sandler et al. 2018) for pictures of 32 x 32.
struct MobileNet {
  ConvNorm stem;
  std::vector<InvertedResidual> blocks;
  nn::Linear head;
  explicit MobileNet(Rng& rng) : stem(3, 32, 3, rng, {.padding = 1}), head(160, 10, rng) {
    const std::pair<int64_t, int64_t> channels_and_stride[] = {
        {24, 1}, {24, 1}, {32, 2}, {32, 1}, {64, 2}, {64, 1}, {96, 1}, {96, 1}, {160, 2}};
    int64_t in = 32;
    for (const auto& [out, stride] : channels_and_stride) {
      blocks.emplace_back(in, out, stride, rng);
      in = out;
    }
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = relu6(stem(x));
    for (const InvertedResidual& block : blocks) y = block(y);
    return head(mean(y, {2, 3}));
  }
  static void fields(auto& m, auto&& visit) {
    visit("stem", m.stem), visit("blocks", m.blocks), visit("head", m.head);
  }
};

Workload make_mobilenet(nn::Recompute) {
  Rng rng(0);
  return classify(std::make_shared<MobileNet>(rng), randn({64, 3, 32, 32}, rng), rng);
}

}  // namespace

std::vector<Case> mobilenet_cases() { return {{"mobilenet/b64", 64, make_mobilenet}}; }

}  // namespace tern::bench
