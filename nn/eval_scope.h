// A model in evaluation for a while, exceptions included.
//
//   {
//     nn::EvalScope evaluating(model);
//     accuracy = evaluate(model);  // may throw: the model trains on all the same
//   }
#pragma once

#include <utility>
#include <vector>

#include "tern/nn/module.h"

namespace tern::nn {

/// While it lives, all of the model is in evaluation (dropout passes everything, batch norm uses
/// its running statistics). Afterwards every layer is in the mode it was in before, also those that
/// were in evaluation already. REQUIRES: the model stays where it is meanwhile.
class EvalScope {
 public:
  template <class M>
  explicit EvalScope(M& m) : EvalScope(detail::slots(m)) {}
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  explicit EvalScope(const detail::Slots& slots);
  std::vector<std::pair<bool*, bool>> before_;
};

}  // namespace tern::nn
