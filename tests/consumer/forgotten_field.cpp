// A module whose `fields` lacks one layer: the check of the first training step finds it.
#include <tern/tern.h>

#include <string>

using namespace tern;

struct Forgetful {
  nn::Linear up, down;
  explicit Forgetful(Rng& rng) : up(4, 16, rng), down(16, 3, rng) {}
  Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
  static void fields(auto& m, auto&& visit) { visit("up", m.up); }
};

int main() {
  Rng rng(0);
  Forgetful model(rng);
  optim::AdamW optimizer(nn::named_parameters(model));
  Tensor loss = cross_entropy(model(randn({8, 4}, rng)), randint(0, 3, {8}, rng));
  try {
    optim::check_training_graph(loss, nn::named_parameters(model), optimizer);
  } catch (const Error& e) {
    return std::string(e.what()).find("not parameters of the model") == std::string::npos;
  }
  return 1;
}
