// Small ResNets for the tests: one for every option that changes the graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/models/resnet.h"

namespace tern::test {

inline models::ResNetOptions tiny_resnet() {
  return {.layers = {1, 1, 1, 1}, .classes = 10, .width = 4};
}

// Names and options.
inline std::vector<std::pair<std::string, models::ResNetOptions>> resnet_forms() {
  std::vector<std::pair<std::string, models::ResNetOptions>> out = {{"basic", tiny_resnet()}};
  auto form = [&](const char* name) -> models::ResNetOptions& {
    out.emplace_back(name, tiny_resnet());
    return out.back().second;
  };
  form("bottleneck").block = models::ResNetBlockKind::bottleneck;
  models::ResNetOptions& groups = form("groups");
  groups.block = models::ResNetBlockKind::bottleneck;
  groups.groups = 4;
  groups.width_per_group = 32;
  form("small pictures").small_pictures = true;
  form("features").classes = 0;
  models::ResNetOptions& gray = form("one colour, two blocks, zeros");
  gray.channels = 1;
  gray.layers = {2, 1, 1, 2};
  gray.zero_init_residual = true;
  form("recomputed").recompute = nn::Recompute::full;
  return out;
}

}  // namespace tern::test
