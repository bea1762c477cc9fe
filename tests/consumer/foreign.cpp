// A program outside of tern: its own model and one training step.
#include <tern/tern.h>

using namespace tern;

struct Mlp {
  nn::Linear up, down;
  explicit Mlp(Rng& rng) : up(4, 16, rng), down(16, 3, rng) {}
  Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
  static void fields(auto& m, auto&& visit) { visit("up", m.up), visit("down", m.down); }
};

int main() {
  Rng rng(0);
  Mlp model(rng);
  optim::AdamW optimizer(nn::named_parameters(model));
  Tensor x = randn({8, 4}, rng), target = randint(0, 3, {8}, rng);
  Tensor before = cross_entropy(model(x), target);
  before.backward();
  optimizer.step();
  return cross_entropy(model(x), target).item() < before.item() ? 0 : 1;
}
