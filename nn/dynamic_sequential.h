// Layers one after the other, whose number and types are chosen while the program runs; where they
// are known when it is compiled, nn::Sequential is checked by the compiler.
//
//   // The widths of a network come from a file.
//   Rng rng(0);
//   nn::DynamicSequential net;
//   int64_t dim = 784;
//   for (int64_t width : widths) {
//     net.add(nn::Linear(dim, width, rng)).add(nn::Relu());
//     dim = width;
//   }
//   net.add("head", nn::Linear(dim, 10, rng));
//   fmt::print("{}\n", net);
//   optim::AdamW optimizer(nn::named_parameters(net));
//   cross_entropy(net(x), labels).backward();
//   optimizer.step();
//   net["head"].as<nn::Linear>().weight;  // or net[-1]
//   nn::save_weights("net.safetensors", net);
//
// Layers are named by their places, 0, 1, ..., as in torch.nn.Sequential, or by the name they are
// added with, as those of its OrderedDict.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/nn/any_layer.h"

namespace tern::nn {

class DynamicSequential {
 public:
  DynamicSequential() = default;
  DynamicSequential(std::initializer_list<AnyLayer> layers);

  /// Both give the sequence itself, for one more.
  DynamicSequential& add(AnyLayer layer);
  /// An Error if the name is taken, empty, a number, or has a dot.
  DynamicSequential& add(std::string name, AnyLayer layer);
  /// Before layer `at`; those behind it get the next numbers. Places count from the end if
  /// negative.
  void insert(int64_t at, AnyLayer layer);
  void erase(int64_t at);
  void clear() { layers_.clear(); }

  /// x itself if there are no layers.
  Tensor operator()(Tensor x) const;

  int64_t size() const { return std::ssize(layers_); }
  bool empty() const { return layers_.empty(); }
  AnyLayer& operator[](std::integral auto at) { return layers_[place("[]", at, size())].second; }
  const AnyLayer& operator[](std::integral auto at) const {
    return layers_[place("[]", at, size())].second;
  }
  /// By its name or number ("head", "0"); an Error that lists the names if there is none.
  AnyLayer& operator[](std::string_view name) { return layers_[place(name)].second; }
  const AnyLayer& operator[](std::string_view name) const { return layers_[place(name)].second; }
  std::string name(int64_t at) const;

  static void fields(auto& m, auto&& visit) {
    for (size_t i = 0; i < m.layers_.size(); ++i)
      visit(m.name(static_cast<int64_t>(i)), m.layers_[i].second);
  }

 private:
  size_t place(const char* op, int64_t at, int64_t end) const;
  size_t place(std::string_view name) const;
  std::vector<std::pair<std::string, AnyLayer>> layers_;  // an empty name: its number
};

}  // namespace tern::nn
