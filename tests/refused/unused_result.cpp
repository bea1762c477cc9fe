// Does not compile with -Werror=unused-result, and says why: masked_fill changes nothing.
#include "tern/core/ops/ops.h"

int main() {
  const tern::Tensor x = tern::ones({2});
  masked_fill(x, x, 0);
}
