// Does not compile, and says why: a loss gives a Tensor, which backward starts from.
#include "tern/train/loop.h"

struct Batch {
  tern::Tensor x;
};

int main() {
  tern::training::Task<Batch> task{.loss = [](const Batch& b) { return b.x.item(); }};
  return task.loss.call ? 0 : 1;
}
