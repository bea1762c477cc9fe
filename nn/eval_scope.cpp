// Remembers the mode of every layer, sets evaluation, and restores the modes at the end of the
// scope.
#include "tern/nn/eval_scope.h"

#include "tern/core/base/error.h"

namespace tern::nn {
namespace {

thread_local int scopes = 0;  // that this thread is in

// Other threads may read a mode that does not change.
void set_mode(TrainingMode& mode, bool on) {
  if (mode.wanted() != on) mode = on;
}

}  // namespace

void TrainingMode::check_may_train() {
  check(
      scopes <= 0,
      "EvalScope: a layer in the scope is in training (dropout, or a norm by batch statistics), "
      "and no walk of a module has found it: list it in `fields` of its module. If it shall be in "
      "training, call nn::set_training on the module first");
}

EvalScope::EvalScope(const detail::Slots& walked) {
  for (const detail::Slot& slot : walked)
    if (TrainingMode* const* mode = std::get_if<TrainingMode*>(&slot.field))
      before_.emplace_back(*mode, (*mode)->wanted());
  for (auto& [mode, before] : before_) set_mode(*mode, false);
  ++scopes;
}

EvalScope::~EvalScope() {
  --scopes;
  for (auto& [mode, before] : before_) set_mode(*mode, before);
}

}  // namespace tern::nn
