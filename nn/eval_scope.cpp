#include "tern/nn/eval_scope.h"

namespace tern::nn {

EvalScope::EvalScope(const detail::Slots& slots) {
  for (const detail::Slot& slot : slots)
    if (bool* const* training = std::get_if<bool*>(&slot.field))
      before_.emplace_back(*training, **training);
  for (auto& [training, before] : before_) *training = false;
}

EvalScope::~EvalScope() {
  for (auto& [training, before] : before_) *training = before;
}

}  // namespace tern::nn
