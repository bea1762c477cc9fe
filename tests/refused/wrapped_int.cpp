// Does not compile, and says why: a tensor has no elements of type int.
#include "tern/core/tensor/tensor.h"

int main() {
  int numbers[2] = {1, 2};
  return tern::Tensor::wrap(numbers, {2}).ndim();
}
