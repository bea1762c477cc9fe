#include "tern/models/resnet.h"

#include <memory>

#include "tern/bench/cases.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"

namespace tern::bench {
namespace {

constexpr int64_t kBatch = 64, kSide = 32;

// Operations of a convolution to places of side x side.
double conv_flop(double side, double in, double out, double kernel) {
  return 2 * kBatch * side * side * in * out * kernel * kernel;
}

// Of basic blocks behind a small stem. Each convolution has three products of the same size a step
// (forward, gradient of the input, of the weight); nobody wants the images' gradient.
double resnet_gflop(const models::ResNetOptions& o) {
  auto side = static_cast<double>(kSide), in = static_cast<double>(o.width), planes = in;
  double flop = 2 * conv_flop(side, static_cast<double>(o.channels), in, 3);
  for (size_t s = 0; s < o.layers.size(); ++s, planes *= 2) {
    if (s > 0) side /= 2, flop += 3 * conv_flop(side, in, planes, 1);
    const auto others = static_cast<double>(2 * o.layers[s] - 1);
    flop += 3 * (conv_flop(side, in, planes, 3) + others * conv_flop(side, planes, planes, 3));
    in = planes;
  }
  return (flop + 3 * 2 * kBatch * in * static_cast<double>(o.classes)) / 1e9;
}

Workload make_resnet(models::ResNetOptions options, nn::Recompute recompute) {
  Rng rng(0);
  options.recompute = recompute;
  auto model = std::make_shared<models::ResNet>(options, rng);
  Tensor images = randn({kBatch, options.channels, kSide, kSide}, rng);
  Tensor labels = randint(0, options.classes, {kBatch}, rng);
  return {nn::named_parameters(*model), [=] { return cross_entropy((*model)(images), labels); }};
}

}  // namespace

std::vector<Case> resnet_cases() {
  models::ResNetOptions options = models::resnet_options("resnet18");
  options.small_pictures = true;
  options.classes = 10;
  return {{"resnet18/b64", kBatch, resnet_gflop(options),
           [=](nn::Recompute r) { return make_resnet(options, r); }}};
}

}  // namespace tern::bench
