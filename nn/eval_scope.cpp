// Remembers the mode of every layer, sets evaluation, and restores the modes at the end of the
// scope.
#include "tern/nn/eval_scope.h"

namespace tern::nn {

EvalScope::EvalScope(const detail::Slots& walked) {
  for (const detail::Slot& slot : walked)
    if (TrainingMode* const* mode = std::get_if<TrainingMode*>(&slot.field))
      before_.emplace_back(*mode, (*mode)->wanted());
  for (auto& [mode, before] : before_) *mode = false;
}

EvalScope::~EvalScope() {
  for (auto& [mode, before] : before_) *mode = before;
}

}  // namespace tern::nn
