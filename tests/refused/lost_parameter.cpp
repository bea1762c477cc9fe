// Does not compile: the function returns a copy of the Parameter, so the assignment would be lost.
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/linear.h"

tern::nn::Parameter weight(const tern::nn::Linear& layer) { return layer.weight; }

int main() {
  tern::Rng rng(0);
  const tern::nn::Linear layer(2, 2, rng);
  weight(layer) = tern::ones({2, 2});
}
