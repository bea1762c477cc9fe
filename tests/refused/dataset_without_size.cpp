// Does not compile, and says why: a data set must have size(), its number of samples.
#include "tern/data/loading/dataset.h"

struct Houses {
  int get(int64_t i) const { return static_cast<int>(i); }
};

int main() {
  tern::datasets::Dataset houses(Houses{});
  return static_cast<int>(houses.size());
}
