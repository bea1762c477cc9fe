// A small training with every kind of state, for the tests of train/.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <utility>

#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"
#include "tern/train/train.h"

namespace tern::test {

using namespace tern::training;

// Dropout and batch norm give it generators and buffers besides weights.
struct Net {
  nn::Linear up, down;
  nn::BatchNorm2d norm;
  nn::Dropout dropout;
  explicit Net(Rng& rng) : up(4, 8, rng), down(8, 3, rng), norm(8), dropout(0.2, rng) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor h = norm(reshape(up(x), {-1, 8, 1, 1}));
    return down(dropout(gelu(reshape(h, {-1, 8}))));
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("norm", m.norm);
    visit("dropout", m.dropout);
    visit("down", m.down);
  }
};

struct Points {
  Tensor x, label;
};

// Points in batches of 4; the last of the six has 2.
inline datasets::Loader<Points> points(int64_t count = 22) {
  return datasets::Loader<Points>(count,
                                  [](const datasets::BatchPlan& plan) {
                                    const int64_t n = std::ssize(plan.indices);
                                    Rng rng = plan.batch_rng();
                                    Points p{randn({n, 4}, rng), zeros({n}, DType::i64)};
                                    NoGradGuard no_grad;
                                    p.label = gt(sum(p.x, {1}), 0).to(DType::i64);
                                    return p;
                                  },
                                  {.batch = 4, .seed = 3});
}

/// The cross entropy of a model on a batch. REQUIRES: the model outlives the result.
template <class Model>
auto loss_of(const Model& model) {
  return [&model](const Points& p) { return cross_entropy(model(p.x), p.label); };
}

/// A linear layer with all that a loop needs, and without random numbers in its steps.
struct Linear {
  explicit Linear(double lr = 0.5) : optimizer(nn::named_parameters(model), {.lr = lr}) {}

  Rng rng{5};
  nn::Linear model{4, 3, rng};
  datasets::Loader<Points> loader = points();
  optim::Sgd optimizer;
  Learner learner{model, optimizer};
};

// A training with every kind of state: averages, a schedule, accumulation, and a counter and a
// generator of the program.
struct Training {
  Rng rng{7};
  Net model{rng};
  datasets::Loader<Points> loader = points();
  optim::AdamW optimizer{nn::named_parameters(model), {.lr = 0.02}};
  Learner learner;
  int64_t seen = 0;
  Rng noise{11};
  // Hooks for the tests.
  double poison = 0;  // added to the loss
  bool quiet = false, give_up = false;
  int64_t batches = 0;
  std::function<void(int64_t number)> before_batch;
  std::function<void(double loss)> watch;
  std::function<Tensor()> extra;
  std::function<void()> evaluated;
  std::function<double()> metric;
  Loop loop;

  explicit Training(LoopOptions options = {}, LearnerOptions learning = busy())
      : learner(model, optimizer, std::move(learning)),
        loop(learner, loader, task(), with(options)) {
    loop.checkpoint().add("seen", seen);
    loop.checkpoint().add("noise", noise);
  }
  static LearnerOptions busy() {
    return {.schedule = optim::cosine({.warmup = 2, .total = 20}), .clip = 1, .ema = 0.9};
  }
  static LoopOptions with(LoopOptions o) {
    o.terminal = false;
    if (o.epochs == 1 && o.steps == 0) o.epochs = 3;
    // Two steps per epoch, of four and two batches; for 0, six steps of one batch.
    o.accumulate = o.accumulate == 1 ? 4 : std::max<int64_t>(o.accumulate, 1);
    return o;
  }
  Task<Points> task() {
    return {.loss =
                [this](const Points& p, Means& means) {
                  if (before_batch) before_batch(++batches);
                  seen += p.label.size(0);
                  const Tensor logits = model(quiet ? p.x : p.x + 0.1 * noise.normal());
                  const auto n = static_cast<double>(p.label.size(0));
                  means.add("top1", sum(eq(argmax(logits.detach(), -1), p.label)).item(), n);
                  Tensor loss = cross_entropy(logits, p.label);
                  if (watch) watch(loss.item());
                  if (extra) loss = loss + extra();
                  return loss + poison;
                },
            .evaluate = [this]() -> std::optional<Metrics> {
              if (evaluated) evaluated();
              if (give_up) return std::nullopt;
              const Points p{ones({5, 4}), zeros({5}, DType::i64)};
              return Metrics{{"valid_loss", cross_entropy(model(p.x), p.label).item()},
                             {"none", kNan},
                             {"rank", metric ? metric() : 0.0}};
            },
            .weight = [](const Points& p) { return static_cast<double>(p.label.size(0)); }};
  }
  void step() {  // closes a trained epoch first
    if (loop.epoch_trained()) REQUIRE(loop.close_epoch());
    loop.step();
  }
};

/// Takes steps with `first`; then `second` resumes from its checkpoint.
template <class T>
void resume_after(int steps, T& first, T& second) {
  const TempDir dir;
  for (int i = 0; i < steps; ++i) first.step();
  first.loop.checkpoint().save(dir / "c");
  second.loop.load_state(load_checkpoint(dir / "c"), "c");
}

/// Runs, or resumes, the training of a linear layer, which is stopped in step `stop`.
inline void run_linear(LoopOptions options, double lr, int64_t stop = 0) {
  Linear t(lr);
  auto loss = [&](const Points& p) {
    if (t.learner.steps() + 1 == stop) std::raise(SIGTERM);
    return cross_entropy(t.model(p.x), p.label);
  };
  Loop loop(t.learner, t.loader, {.loss = loss}, std::move(options));
  loop.resume();
  loop.run();
}

struct Killed {};

/// Ends the run that calls this: as if its process ended and nothing were saved, or as by Ctrl-C.
inline void end_run(bool killed) {
  if (killed) throw Killed();
  std::raise(SIGINT);
}

/// Runs a training that ends itself by end_run(killed).
template <class T>
Outcome run_until_ended(T& t, bool killed) {
  if (!killed) return t.loop.run();
  CHECK_THROWS_AS(t.loop.run(), Killed);
  return Outcome::interrupted;
}

struct EndedRun {
  Outcome outcome;
  int64_t steps;  ///< steps taken
};

/// A run that end_run(killed) ends in this batch.
inline EndedRun run_to_batch(const LoopOptions& options, int64_t batch, bool killed) {
  Training t(options);
  t.before_batch = [&](int64_t number) {
    if (number == batch) end_run(killed);
  };
  const Outcome outcome = run_until_ended(t, killed);
  return {outcome, t.learner.steps()};
}

}  // namespace tern::test
