// Training step of a temporal convolutional network on 32 sequences of 500 steps, built from layers
// of nn.
#include "tern/bench/cases.h"
#include "tern/nn/nn.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 32, kSteps = 500, kInputs = 40;

/// y = relu(norm(conv(x))), plus x if the numbers of channels are equal.
struct DilatedLayer {
  nn::Conv1d conv;
  nn::BatchNorm1d norm;
  bool residual;
  DilatedLayer(int64_t in, int64_t out, int64_t dilation, Rng& rng)
      : conv(in, out, 5, rng, {.padding = 2 * dilation, .dilation = dilation}),
        norm(out),
        residual(in == out) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = relu(norm(conv(x)));
    return residual ? x + y : y;
  }
  static void fields(auto& m, auto&& visit) { visit("conv", m.conv), visit("norm", m.norm); }
};

/// A temporal convolutional network (Bai et al. 2018), but not causal. Each layer has twice the
/// dilation of the one before.
struct Tcn {
  std::vector<DilatedLayer> layers;
  nn::Linear head;
  explicit Tcn(Rng& rng) : head(128, 10, rng) {
    for (int64_t i = 0; i < 6; ++i) layers.emplace_back(i ? 128 : kInputs, 128, 1 << i, rng);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const DilatedLayer& layer : layers) y = layer(y);
    return head(mean(y, {2}));
  }
  static void fields(auto& m, auto&& visit) { visit("layers", m.layers), visit("head", m.head); }
};

Workload make_tcn(nn::Recompute) {
  Rng rng(0);
  return classify(std::make_shared<Tcn>(rng), randn({kBatch, kInputs, kSteps}, rng), rng);
}

}  // namespace

std::vector<Case> tcn_cases() { return {{"tcn/b32x500", kBatch, make_tcn}}; }

}  // namespace tern::bench
