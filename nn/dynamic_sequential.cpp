// Adding, inserting and finding layers by index or name, and the call in order.
#include "tern/nn/dynamic_sequential.h"

#include <algorithm>

#include "tern/nn/module_dict.h"

namespace tern::nn {

DynamicSequential::DynamicSequential(std::initializer_list<AnyLayer> layers) {
  for (const AnyLayer& layer : layers) add(layer);
}

DynamicSequential& DynamicSequential::add(AnyLayer layer) {
  mark_.check_here();
  layers_.emplace_back("", std::move(layer));
  return *this;
}

DynamicSequential& DynamicSequential::add(std::string name, AnyLayer layer) {
  mark_.check_here();
  detail::check_module_name("DynamicSequential", name);
  check(name.find_first_not_of("0123456789") != name.npos,
        "DynamicSequential: '{}' is a number, and numbers are for layers without a name; leave the "
        "name out",
        name);
  for (const auto& [taken, other] : layers_)
    check(taken != name, "DynamicSequential: there is already a layer '{}'; choose another name",
          name);
  layers_.emplace_back(std::move(name), std::move(layer));
  return *this;
}

void DynamicSequential::insert(int64_t at, AnyLayer layer) {
  const size_t i = place("insert", at, size() + 1);
  layers_.emplace(layers_.begin() + static_cast<int64_t>(i), "", std::move(layer));
}

// Swaps the layers behind it forward: assigning them would write into the weights before them.
void DynamicSequential::erase(int64_t at) {
  const auto gone = layers_.begin() + static_cast<int64_t>(place("erase", at, size()));
  std::rotate(gone, gone + 1, layers_.end());
  layers_.pop_back();
}

Tensor DynamicSequential::operator()(Tensor x) const {
  mark_.check_here();
  for (const auto& [name, layer] : layers_) x = layer(x);
  return x;
}

std::string DynamicSequential::name(int64_t at) const {
  const size_t i = place("name", at, size());
  return layers_[i].first.empty() ? std::to_string(i) : layers_[i].first;
}

size_t DynamicSequential::place(const char* op, int64_t at, int64_t end) const {
  mark_.check_here();
  const int64_t i = at < 0 ? at + size() : at;
  check(i >= 0 && i < end, "DynamicSequential: {}: place {} is out of range for {} layers", op, at,
        size());
  return static_cast<size_t>(i);
}

size_t DynamicSequential::place(std::string_view wanted) const {
  mark_.check_here();
  std::vector<std::string> names;
  for (int64_t i = 0; i < size(); ++i) {
    names.push_back(name(i));
    if (names.back() == wanted) return static_cast<size_t>(i);
  }
  detail::fail_no_module("DynamicSequential", wanted, names);
}

}  // namespace tern::nn
