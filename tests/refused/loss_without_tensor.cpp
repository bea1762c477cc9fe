// Does not compile, and says why: a loss returns a Tensor, where backward starts.
#include "tern/train/loop.h"

struct Batch {
  tern::Tensor x;
};

int main() {
  tern::training::Task<Batch> task{.loss = [](const Batch& b) { return b.x.item(); }};
  return task.loss.call ? 0 : 1;
}
