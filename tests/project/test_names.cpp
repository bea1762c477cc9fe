// A program's own names beside tern's (docs/tutorial.md): without `using namespace tern`, or with
// it inside the program's namespace.
#include <doctest/doctest.h>

#include "tern/tern.h"

namespace nn = tern::nn;
using tern::Tensor;

static int data = 3;
static Tensor train(const nn::Linear& layer) {
  return layer(tern::ones({data, layer.weight.size(1)}));
}

namespace program {
using namespace tern;
static int data = 5;
static Tensor train(const nn::Linear& layer) { return layer(ones({data, 2})); }
static int64_t rows(const nn::Linear& layer) { return train(layer).size(0); }
}  // namespace program

TEST_CASE("names: a program's own train() and data") {
  tern::Rng rng(1);
  const nn::Linear layer(2, 2, rng);
  CHECK(train(layer).shape() == tern::Shape{3, 2});
  CHECK(program::rows(layer) == 5);
}
