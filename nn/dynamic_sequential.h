// A sequence of layers whose number and types are chosen at run time. If they are known at compile
// time, use nn::Sequential, which the compiler checks.
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
// A layer's name is its index, 0, 1, ..., as in torch.nn.Sequential, or the name it was added with,
// as in PyTorch's OrderedDict.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/nn/any_layer.h"
#include "tern/nn/moved_mark.h"

namespace tern::nn {

class DynamicSequential {
 public:
  DynamicSequential() = default;
  DynamicSequential(std::initializer_list<AnyLayer> layers);

  /// add() returns the sequence itself, so that calls can be chained.
  DynamicSequential& add(AnyLayer layer);
  /// Error if the name is taken, empty or a number, or contains a dot.
  DynamicSequential& add(std::string name, AnyLayer layer);
  /// Inserts before layer `at`; later layers are renumbered. Negative indices count from the end.
  void insert(int64_t at, AnyLayer layer);
  void erase(int64_t at);
  void clear() { *this = {}; }

  /// Returns x itself if there are no layers. Error, here and in walks, if it was moved from.
  Tensor operator()(Tensor x) const;

  int64_t size() const { return std::ssize(layers_); }
  bool empty() const { return layers_.empty(); }
  AnyLayer& operator[](std::integral auto at) { return layers_[place("[]", at, size())].second; }
  const AnyLayer& operator[](std::integral auto at) const {
    return layers_[place("[]", at, size())].second;
  }
  /// A layer by its name or number ("head", "0"). If there is none, an Error lists the names.
  AnyLayer& operator[](std::string_view name) { return layers_[place(name)].second; }
  const AnyLayer& operator[](std::string_view name) const { return layers_[place(name)].second; }
  std::string name(int64_t at) const;

  static void fields(auto& m, auto&& visit) {
    m.mark_.check_here();
    for (size_t i = 0; i < m.layers_.size(); ++i)
      visit(m.name(static_cast<int64_t>(i)), m.layers_[i].second);
  }

 private:
  size_t place(const char* op, int64_t at, int64_t end) const;
  size_t place(std::string_view name) const;
  detail::MovedMark mark_{"DynamicSequential"};
  std::vector<std::pair<std::string, AnyLayer>> layers_;  // empty name: use the index
};

}  // namespace tern::nn
