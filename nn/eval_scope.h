// Puts a model into evaluation mode for a scope, and back at its end, also after an exception.
//
//   {
//     nn::EvalScope evaluating(model);
//     accuracy = evaluate(model);  // may throw: the model is in training again afterwards
//   }
#pragma once

#include <utility>
#include <vector>

#include "tern/nn/module.h"

namespace tern::nn {

/// While it lives, the whole model is in evaluation (dropout passes everything, batch norm uses its
/// running statistics). Afterwards every layer has its previous mode, even if that was evaluation.
///
/// Threads: the mode belongs to the model, not to the thread. Several threads may have scopes for
/// one model that is in evaluation anyway (nn::set_training(model, false)): the scopes then only
/// read it. No other thread may use a model in training while a scope begins, lasts or ends.
/// REQUIRES: the model is not moved meanwhile, and the scope ends in the thread where it began.
class EvalScope {
 public:
  template <class M>
  [[nodiscard]] explicit EvalScope(M& m) : EvalScope(detail::walk(m)) {}
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  explicit EvalScope(const detail::Slots& walked);
  std::vector<std::pair<TrainingMode*, bool>> before_;
};

}  // namespace tern::nn
