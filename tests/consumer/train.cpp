// A complete training program outside of tern: checkpoints, Ctrl-C, resume, best weights.
//   train DIR                trains in DIR, or resumes the run that is there
//   train DIR STEP SIGNAL    the same, but raises a signal in this step
#include <tern/tern.h>

#include <csignal>

using namespace tern;

struct Mlp {
  nn::Linear up, down;
  nn::Dropout dropout;
  explicit Mlp(Rng& rng) : up(2, 32, rng), down(32, 2, rng), dropout(0.1, rng) {}
  Tensor operator()(const Tensor& x) const { return down(dropout(gelu(up(x)))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("dropout", m.dropout);
  }
};

struct Points {
  Tensor x, label;  // outside a circle, or inside?
};

Points draw(int64_t n, Rng&& rng) {  // used by this call only: a copy would draw the same points
  Tensor x = randn({n, 2}, rng);
  return {x, gt(norm(x, 2, 1), 1.18).to(DType::i64)};
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "runs/circle";
  const int64_t signal_at = argc > 2 ? std::atoi(argv[2]) : -1;
  const int signal = argc > 3 ? std::atoi(argv[3]) : SIGINT;
  Rng rng(0);
  Mlp model(rng);
  datasets::Loader<Points> loader(
      2048, [](const datasets::BatchPlan& plan) { return draw(64, plan.batch_rng()); },
      {.batch = 64});
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});
  training::Learner learner(model, optimizer, {.clip = 1, .ema = 0.99});
  int64_t seen = 0;  // the program's own state, saved in the checkpoint
  training::Loop loop(
      learner, loader,
      {.loss =
           [&](const Points& p) {
             if (learner.steps() + 1 == signal_at) std::raise(signal);
             seen += p.label.numel();
             return cross_entropy(model(p.x), p.label);
           },
       .evaluate =
           [&] {
             Points p = draw(1000, Rng(1));
             return training::Metrics{{"valid_loss", cross_entropy(model(p.x), p.label).item()}};
           }},
      {.epochs = 4, .folder = folder, .best = {"valid_loss"}, .checkpoint_steps = 20});
  loop.checkpoint().add("seen", seen);
  loop.resume();
  if (loop.run() == training::Outcome::interrupted) return training::kExitInterrupted;
  return seen == 4 * 2048 && loop.best_epoch()["valid_loss"] < 0.3 ? 0 : 1;
}
