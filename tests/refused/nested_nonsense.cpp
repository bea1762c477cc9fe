// Does not compile, and says why: tensor({...}) takes numbers.
#include "tern/core/ops/ops.h"

int main() {
  const tern::Tensor x = tern::ones({2});
  return tern::tensor({x, x}).ndim();
}
