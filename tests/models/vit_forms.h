// Small Vision Transformers for the tests: one for every option that changes the graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/models/vit.h"

namespace tern::test {

inline models::VitOptions tiny_vit() {
  return {.image = 8, .patch = 4, .dim = 8, .layers = 2, .heads = 2, .mlp_dim = 12, .classes = 10};
}

// Names and options.
inline std::vector<std::pair<std::string, models::VitOptions>> vit_forms() {
  std::vector<std::pair<std::string, models::VitOptions>> out = {{"timm", tiny_vit()}};
  auto form = [&](const char* name) -> models::VitOptions& {
    out.emplace_back(name, tiny_vit());
    return out.back().second;
  };
  form("sin-cos").positions = models::VitPositions::sincos;
  form("no positions").positions = models::VitPositions::none;
  form("average").pooling = models::VitPooling::average;
  models::VitOptions& average = form("average without a class token");
  average.pooling = models::VitPooling::average;
  average.class_token = false;
  average.final_norm = models::VitFinalNorm::tokens;
  models::VitOptions& registers = form("registers without positions, layer scale");
  registers.registers = 3;
  registers.positions_on_prefix = false;
  registers.layer_scale = 0.5;
  models::VitOptions& clip = form("norm before the blocks, hidden layer, no bias of qkv");
  clip.norm_pre = true;
  clip.fc_dim = 6;
  clip.qkv_bias = false;
  clip.final_norm = models::VitFinalNorm::pooled;
  models::VitOptions& post = form("post-norm");
  post.norm_first = false;
  post.final_norm = models::VitFinalNorm::none;
  post.activation = Activation::relu;
  form("no head").classes = 0;
  models::VitOptions& one = form("one layer, sin-cos beside registers");
  one.layers = 1;
  one.positions = models::VitPositions::sincos;
  one.registers = 1;
  return out;
}

}  // namespace tern::test
