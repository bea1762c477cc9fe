// The tutorial's gradient check: the gradients of RecencyAttention against finite differences.
#include "recency.h"

int main() {
  Rng rng(0);
  RecencyAttention attend(64, 4, rng);
  nn::to(attend, DType::f64);
  Tensor x = randn({2, 5, 64}, rng, DType::f64).set_requires_grad();
  gradcheck([&](const std::vector<Tensor>& inputs) { return attend(inputs[0]); }, {x});
}
