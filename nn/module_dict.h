// Modules by name, as torch.nn.ModuleDict, in insertion order:
//
//   nn::ModuleDict<nn::Linear> heads;
//   heads.add("class", nn::Linear(64, 10, rng));
//   heads.add("depth", nn::Linear(64, 1, rng));
//   for (const auto& [name, head] : heads) losses[name] = loss(head(features), targets[name]);
//   heads["class"].weight;   // state: class.weight, class.bias, depth.weight, depth.bias
//
// All modules have one type, which may take several tensors. For layers of different types use
// nn::AnyLayer (ModuleDict<>). For a list without names use a std::vector.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/nn/any_layer.h"
#include "tern/nn/moved_mark.h"

namespace tern::nn {
namespace detail {

/// Error for a name that is empty or contains a dot.
void check_module_name(const char* container, const std::string& name);
[[noreturn]] void fail_no_module(const char* container, std::string_view name,
                                 const std::vector<std::string>& names);

}  // namespace detail

template <class M = AnyLayer>
class ModuleDict {
 public:
  /// Returns the module in the dictionary. Error if the name is taken, empty or contains a dot.
  M& add(std::string name, M module) {
    mark_.check_here();
    detail::check_module_name("ModuleDict", name);
    check(!contains(name), "ModuleDict: there is already a module '{}'; assign to dict[\"{}\"]",
          name, name);
    return modules_.emplace_back(std::move(name), std::move(module)).second;
  }
  /// Swaps the modules behind it forward: assigning them would write into the weights before them.
  void erase(std::string_view name) {
    const auto gone = modules_.begin() + place(name);
    std::rotate(gone, gone + 1, modules_.end());
    modules_.pop_back();
  }
  void clear() { *this = {}; }

  /// The module of this name. If there is none, an Error lists the names.
  M& operator[](std::string_view name) { return modules_[static_cast<size_t>(place(name))].second; }
  const M& operator[](std::string_view name) const {
    return modules_[static_cast<size_t>(place(name))].second;
  }
  bool contains(std::string_view name) const {
    for (const auto& entry : modules_)
      if (entry.first == name) return true;
    return false;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : modules_) all.push_back(entry.first);
    return all;
  }
  int64_t size() const { return std::ssize(modules_); }
  bool empty() const { return modules_.empty(); }
  /// Iterates over pairs of name and module. Error, as in walks, if it was moved from.
  auto begin() const {
    mark_.check_here();
    return modules_.begin();
  }
  auto end() const { return modules_.end(); }

  static void fields(auto& m, auto&& visit) {
    m.mark_.check_here();
    for (auto& entry : m.modules_) visit(entry.first, entry.second);
  }

 private:
  int64_t place(std::string_view name) const {
    mark_.check_here();
    for (size_t i = 0; i < modules_.size(); ++i)
      if (modules_[i].first == name) return static_cast<int64_t>(i);
    detail::fail_no_module("ModuleDict", name, names());
  }
  detail::MovedMark mark_{"ModuleDict"};
  std::vector<std::pair<std::string, M>> modules_;
};

}  // namespace tern::nn
