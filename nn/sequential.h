// Modules and function objects in sequence:
//   nn::Sequential mlp{nn::Linear(784, 64, rng), nn::Relu(), nn::Linear(64, 10, rng)};
//   mlp(x);  mlp.get<0>().weight;
// Braces make the layers draw from rng in their order; in parentheses C++ leaves the order open.
// Their names are 0, 1, ..., as in torch.nn.Sequential.
#pragma once

#include <string>
#include <tuple>
#include <utility>

#include "tern/core/tensor/tensor.h"

namespace tern::nn {

template <class... Layers>
struct Sequential {
  std::tuple<Layers...> layers;

  explicit Sequential(Layers... each) : layers(std::move(each)...) {}

  Tensor operator()(Tensor x) const {
    std::apply([&](const auto&... layer) { ((x = layer(x)), ...); }, layers);
    return x;
  }
  template <std::size_t i>
  auto& get() {
    return std::get<i>(layers);
  }
  template <std::size_t i>
  const auto& get() const {
    return std::get<i>(layers);
  }
  static void fields(auto& m, auto&& visit) { visit("", m.layers); }
};

}  // namespace tern::nn
