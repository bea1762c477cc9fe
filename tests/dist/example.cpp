// The program of docs/several_machines.md.
#include <fmt/core.h>
#include <tern/tern.h>

using namespace tern;

struct Mlp {
  nn::Linear up, down;
  nn::Dropout dropout;
  explicit Mlp(Rng& rng) : up(2, 64, rng), down(64, 2, rng), dropout(0.1, rng) {}
  Tensor operator()(const Tensor& x) const { return down(dropout(gelu(up(x)))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("dropout", m.dropout);
  }
};

int main() {
  dist::World world({.timeout = 120});  // without mpirun: one rank
  Rng rng(0);                           // the same on all ranks; compared below
  Mlp model(rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});
  dist::GradientSum sum(world, model, {.blocks = 8});
  for (int64_t step = 0; step < 100; ++step) {
    double loss = sum.backward([&](int64_t block) {
      Rng data = Rng(1).stream(8 * step + block);  // a block makes or reads its own samples
      Tensor x = randn({64, 2}, data);
      Tensor label = gt(norm(x, 2, 1), 1.18).to(DType::i64);
      return dist::BlockLoss{cross_entropy(model(x), label), 64};
    });
    optimizer.step();
    optimizer.zero_grad();
    if (world.first() && step % 25 == 24) fmt::print("step {}: loss {:.6f}\n", step + 1, loss);
  }
  if (world.first()) nn::save_weights("circle.safetensors", model);
  world.barrier("the end");  // the file is there before any rank ends
}
