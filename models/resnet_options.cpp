// Named ResNet configurations, and options inferred from the shapes of a state.
#include <algorithm>

#include "tern/models/parts.h"
#include "tern/models/resnet.h"
#include "tern/models/state_shapes.h"

namespace tern::models {
namespace {

ResNetOptions basic(std::vector<int64_t> layers) { return {.layers = std::move(layers)}; }

ResNetOptions bottleneck(std::vector<int64_t> layers, int64_t groups = 1,
                         int64_t width_per_group = 64) {
  return {.block = ResNetBlockKind::bottleneck,
          .layers = std::move(layers),
          .groups = groups,
          .width_per_group = width_per_group};
}

}  // namespace

const std::vector<std::pair<std::string, ResNetOptions>>& resnet_configurations() {
  static const std::vector<std::pair<std::string, ResNetOptions>> kConfigurations = {
      {"resnet18", basic({2, 2, 2, 2})},
      {"resnet34", basic({3, 4, 6, 3})},
      {"resnet50", bottleneck({3, 4, 6, 3})},
      {"resnet101", bottleneck({3, 4, 23, 3})},
      {"resnet152", bottleneck({3, 8, 36, 3})},
      {"resnext50_32x4d", bottleneck({3, 4, 6, 3}, 32, 4)},
      {"resnext101_32x8d", bottleneck({3, 4, 23, 3}, 32, 8)},
      {"resnext101_64x4d", bottleneck({3, 4, 23, 3}, 64, 4)},
      {"wide_resnet50_2", bottleneck({3, 4, 6, 3}, 1, 128)},
      {"wide_resnet101_2", bottleneck({3, 4, 23, 3}, 1, 128)},
  };
  return kConfigurations;
}

ResNetOptions resnet_options(const std::string& name) {
  return options_named("resnet", name, resnet_configurations());
}

std::vector<std::string> resnet_names() { return names_of(resnet_configurations()); }

ResNetOptions resnet_options_of(const NamedTensors& tensors) {
  const StateShapes state{tensors, "resnet", "torchvision's ResNet"};
  ResNetOptions o;
  const Tensor stem = state.need("conv1.weight", 4);
  const int64_t side = stem.size(2);
  check_io(
      side == stem.size(3) && (side == 3 || side == 7),
      "resnet: conv1.weight is {}; a ResNet begins with a 7x7 kernel, or 3x3 for small pictures",
      stem.shape());
  o.width = stem.size(0);
  o.channels = stem.size(1);
  o.small_pictures = side == 3;
  const auto has_block = [&](size_t stage, int64_t block) {
    return state.find(fmt::format("layer{}.{}.conv1.weight", stage + 1, block)).defined();
  };
  o.layers.clear();
  for (size_t stage = 0; has_block(stage, 0); ++stage) {
    int64_t blocks = 1;
    while (has_block(stage, blocks)) ++blocks;
    o.layers.push_back(blocks);
  }
  const Tensor inner = state.need("layer1.0.conv2.weight", 4);
  if (state.find("layer1.0.conv3.weight").defined()) {
    o.block = ResNetBlockKind::bottleneck;
    o.groups = std::max<int64_t>(inner.size(0) / inner.size(1), 1);
    // Rounded up, as the number of channels is rounded down.
    o.width_per_group = (inner.size(1) * 64 + o.width - 1) / o.width;
  }
  const Tensor head = state.find("fc.weight", 2);
  o.classes = head.defined() ? head.size(0) : 0;
  return o;
}

}  // namespace tern::models
