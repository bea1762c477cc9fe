// A reference to a module of any type, for code that trains, saves or tests models: a function that
// takes a ModuleRef is compiled once, in a .cpp. It is a module itself, so all of module.h works on
// it.
//
//   void report(const nn::ModuleRef& model) {
//     for (const auto& [name, t] : nn::named_parameters(model)) ...
//   }
//   report(mlp);
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <variant>

#include "tern/nn/module.h"

namespace tern::nn {

/// A reference to a module, which must outlive it and must not move. Every walk reads the module's
/// fields again.
class ModuleRef {
 public:
  template <class M>
  requires(!std::is_same_v<std::remove_const_t<M>, ModuleRef>) ModuleRef(M& module)  // NOLINT
      : walk_([&module] { return detail::walk(module); }) {}

  static void fields(auto& m, auto&& visit) {
    for (const detail::Slot& slot : m.walk_())
      std::visit([&](auto* field) { visit(slot.name, *field); }, slot.field);
  }

 private:
  std::function<detail::Slots()> walk_;
};

}  // namespace tern::nn
