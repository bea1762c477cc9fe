#include "tern/nn/module_ref.h"

namespace tern::nn {

int64_t ModuleRef::num_parameters() const {
  int64_t n = 0;
  for (const auto& [name, t] : named_parameters()) n += t.numel();
  return n;
}

void ModuleRef::load_state_dict(const NamedTensors& state) const {
  detail::load_state_dict(walk_(), "load_state_dict", state, {});
}

void ModuleRef::load_generator_state(const NamedTensors& state) const {
  detail::load_generator_state(walk_(), state);
}

std::vector<bool*> ModuleRef::training_flags() const {
  std::vector<bool*> flags;
  for (const detail::Slot& slot : walk_())
    if (bool* const* flag = std::get_if<bool*>(&slot.field)) flags.push_back(*flag);
  return flags;
}

EvaluationScope::EvaluationScope(const ModuleRef& module) {
  for (bool* flag : module.training_flags()) before_.emplace_back(flag, *flag);
  for (auto& [flag, before] : before_) *flag = false;
}

EvaluationScope::~EvaluationScope() {
  for (auto& [flag, before] : before_) *flag = before;
}

}  // namespace tern::nn
