// The first program of README.md: a small network learns which points are inside a circle.
#include <fmt/core.h>
#include <tern/tern.h>

using namespace tern;

struct Mlp {
  nn::Linear up, down;
  Mlp(int64_t in, int64_t hidden, int64_t out, Rng& rng)
      : up(in, hidden, rng), down(hidden, out, rng) {}
  Tensor operator()(const Tensor& x) const { return down(gelu(up(x))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("down", m.down);
  }
};

int main() {
  Rng rng(0);
  Mlp model(2, 64, 2, rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});

  Tensor x = randn({512, 2}, rng);
  Tensor label = gt(norm(x, 2, 1), 1.18).to(DType::i64);  // outside a circle, or inside?
  for (int step = 1; step <= 200; ++step) {
    Tensor loss = cross_entropy(model(x), label);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    if (step % 50 == 0) fmt::print("step {}: loss {:.4f}\n", step, loss.item());
  }
  nn::save_weights("circle.safetensors", model);  // PyTorch reads this file, and tern PyTorch's
}
