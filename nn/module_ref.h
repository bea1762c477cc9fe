// Any module behind one type, for code that trains, saves or tests models without knowing which:
// a function that takes a ModuleRef is compiled once, in a .cpp.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/nn/module.h"

namespace tern::nn {

/// A reference to a module, which must outlive it and stay in its place. Every call walks the
/// fields anew; the calls are the free functions of module.h.
class ModuleRef {
 public:
  template <class M>
  requires(!std::is_same_v<std::remove_const_t<M>, ModuleRef>) ModuleRef(M& module)  // NOLINT
      : walk_([&module] { return detail::slots(module); }) {}

  NamedTensors named_parameters() const { return detail::named_parameters(walk_()); }
  NamedTensors state_dict() const { return detail::state_dict(walk_()); }
  NamedTensors generator_state() const { return detail::generator_state(walk_()); }
  std::vector<Rng*> generators() const { return detail::generators(walk_()); }
  int64_t num_parameters() const;

  void load_state_dict(const NamedTensors& state) const;
  void load_generator_state(const NamedTensors& state) const;
  void set_training(bool on = true) const { detail::set_training(walk_(), on); }
  /// What says whether parts of the module are in training: a flag each.
  std::vector<bool*> training_flags() const;

 private:
  std::function<detail::Slots()> walk_;
};

/// Evaluation mode for as long as it lives; then every part of the module is as it was.
class EvaluationScope {
 public:
  explicit EvaluationScope(const ModuleRef& module);
  ~EvaluationScope();
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  std::vector<std::pair<bool*, bool>> before_;
};

}  // namespace tern::nn
