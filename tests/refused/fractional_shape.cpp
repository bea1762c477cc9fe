// Does not compile, and says why: sizes are integers.
#include "tern/core/ops/ops.h"

int main() {
  const double n = 2, k = 3;
  return tern::zeros({n, k}).ndim();
}
