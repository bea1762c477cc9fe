// The C++ of docs/howto.md about several optimizers: a GAN learns points around (1, -1).
#include <fmt/core.h>
#include <tern/tern.h>

#include <filesystem>

using namespace tern;

struct Mlp {
  nn::Linear up, down;
  Mlp(int64_t in, int64_t out, Rng& rng) : up(in, 32, rng), down(32, out, rng) {}
  Tensor operator()(const Tensor& x) const { return down(leaky_relu(up(x), 0.2)); }
  static void fields(auto& m, auto&& visit) { visit("up", m.up), visit("down", m.down); }
};

struct Gan {
  Mlp generator, critic;
  static void fields(auto& m, auto&& visit) {
    visit("generator", m.generator), visit("critic", m.critic);
  }
};

Gan make_gan() {
  Rng rng(0);
  return {Mlp(4, 2, rng), Mlp(2, 1, rng)};
}

training::Outcome fit_gan(Gan& gan, datasets::Loader<Tensor>& points, int64_t steps,
                          const std::string& folder) {
  const Mlp &g = gan.generator, &d = gan.critic;
  optim::Adam g_optimizer(nn::named_parameters(g), {.lr = 2e-3, .beta1 = 0.5});
  optim::Adam d_optimizer(nn::named_parameters(d), {.lr = 2e-3, .beta1 = 0.5});
  training::Learner generator(gan.generator, g_optimizer, {.ema = 0.99});
  training::Learner critic(gan.critic, d_optimizer, {.clip = 1});
  Rng noise(1);
  const auto step = [&](const Tensor& real, training::Means& means) {
    const Tensor made = g(randn({real.size(0), 4}, noise));
    const Tensor error = mean(softplus(-d(real))) + mean(softplus(d(made.detach())));
    const double seen = critic.backward(error);
    critic.step();
    const double fooled = generator.backward(mean(softplus(-d(made))));
    generator.step();
    means.add("fooled", fooled, 1);
    return seen + fooled;
  };
  training::Loop loop({{"generator", generator}, {"critic", critic}}, points, {.step = step},
                      {.steps = steps, .evaluate_steps = 500, .folder = folder});
  loop.checkpoint().add("noise", noise);  // what the step draws from goes on as well
  loop.resume();
  return loop.run();
}

// ---- Checks -----------------------------------------------------------------------------------

datasets::Loader<Tensor> points() {
  return datasets::Loader<Tensor>(
      1280,
      [](const datasets::BatchPlan& plan) {
        Rng rng = plan.batch_rng();
        return randn({std::ssize(plan.indices), 2}, rng) * 0.3 + tensor({1, -1}, {2});
      },
      {.batch = 64});
}

Tensor learnt(const std::string& folder) {
  Gan gan = make_gan();
  nn::load_weights(folder + "/model.safetensors", gan);
  NoGradGuard no_grad;
  Rng rng(2);
  return gan.generator(randn({1000, 4}, rng));
}

int main() {
  const std::string whole = "gan-whole", parts = "gan-parts";
  std::filesystem::remove_all(whole), std::filesystem::remove_all(parts);
  const auto fit = [](int64_t steps, const std::string& folder) {
    Gan gan = make_gan();
    auto loader = points();
    check(fit_gan(gan, loader, steps, folder) == training::Outcome::finished, "it ends");
  };
  fit(1500, whole);
  fit(730, parts), fit(1500, parts);
  const Tensor made = learnt(whole);
  check(all(eq(made, learnt(parts))).item<bool>(), "a longer run has the bits of one in a piece");
  const Tensor center = mean(made, {0});
  fmt::print("the generator's points lie around ({:.2f}, {:.2f})\n", center[0].item(),
             center[1].item());
  check(max(abs(center - tensor({1, -1}, {2}))).item() < 0.3, "near the points of the data");
}
