// Training step of a ResNet-18 on 64 pictures of 32 x 32.
#include "tern/models/resnet.h"

#include "tern/bench/cases.h"

namespace tern::bench {
namespace {

Workload make_resnet(nn::Recompute recompute) {
  Rng rng(0);
  models::ResNetOptions options = models::resnet_options("resnet18");
  options.small_pictures = true;
  options.classes = 10;
  options.recompute = recompute;
  return classify(std::make_shared<models::ResNet>(options, rng), randn({64, 3, 32, 32}, rng), rng);
}

}  // namespace

std::vector<Case> resnet_cases() { return {{"resnet18/b64", 64, make_resnet}}; }

}  // namespace tern::bench
