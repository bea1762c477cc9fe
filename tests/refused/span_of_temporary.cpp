// Does not compile: the elements of a temporary would be gone before the loop reads them.
#include "tern/core/ops/ops.h"

int main() {
  float total = 0;
  for (const float v : tern::ones({2}).span<float>()) total += v;
  return static_cast<int>(total);
}
