// Warns about both lines: a scope without a name ends where it begins, so it does nothing.
#include "tern/core/tape/autograd.h"
#include "tern/nn/eval_scope.h"
#include "tern/nn/linear.h"

void evaluate(tern::nn::Linear& layer) {
  tern::NoGradGuard();
  tern::nn::EvalScope{layer};
}
