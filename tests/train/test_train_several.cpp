// Loops with several learners (a GAN) against a loop by hand, and a loop whose Task::step makes the
// steps of one learner.
#include <doctest/doctest.h>

#include <vector>

#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_several {
namespace {

struct Mlp {
  nn::Linear up, down;
  nn::Dropout dropout;
  Mlp(int64_t in, int64_t out, Rng& rng) : up(in, 16, rng), down(16, out, rng), dropout(.2, rng) {}
  Tensor operator()(const Tensor& x) const { return down(dropout(leaky_relu(up(x), .2))); }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up), visit("down", m.down), visit("dropout", m.dropout);
  }
};

struct Both {
  Mlp generator, critic;
  static void fields(auto& m, auto&& visit) {
    visit("critic", m.critic), visit("generator", m.generator);
  }
};

datasets::Loader<Tensor> numbers() {
  return datasets::Loader<Tensor>(40,
                                  [](const datasets::BatchPlan& plan) {
                                    Rng rng = plan.batch_rng();
                                    return randn({std::ssize(plan.indices), 2}, rng) * .5 + 1;
                                  },
                                  {.batch = 8, .workers = 2});
}

// A GAN with every kind of state: one model has a schedule and averages, the other clipping and a
// plateau, and the program has a generator for noise.
struct Gan {
  Rng rng{5}, noise{6};
  Mlp g{4, 2, rng}, d{2, 1, rng};
  optim::Adam g_optimizer{nn::named_parameters(g), {.lr = 1e-2, .beta1 = .5}};
  optim::AdamW d_optimizer{nn::named_parameters(d), {.lr = 2e-2, .beta1 = .5}};
  Learner generator{g, g_optimizer, {.schedule = optim::cosine({.total = 30}), .ema = .9}};
  Learner critic{d, d_optimizer, {.plateau = optim::PlateauOptions{.patience = 0}, .clip = 1}};
  datasets::Loader<Tensor> loader = numbers();
  std::function<void()> before_step = [] {}, between = [] {};
  Loop loop;

  explicit Gan(LoopOptions o = {}) : loop(learners(), loader, task(), with(std::move(o))) {
    loop.checkpoint().add("noise", noise);
  }
  std::vector<NamedLearner> learners() { return {{"critic", critic}, {"generator", generator}}; }
  static LoopOptions with(LoopOptions o) {
    if (o.steps == 0) o.epochs = 3;
    o.best = {"real"};  // the metric stays 0
    o.terminal = false;
    return o;
  }
  Task<Tensor> task() {
    return {.evaluate =
                [] {
                  return Metrics{{"real", 0}};
                },
            .step =
                [this](const Tensor& x, Means& means) {
                  before_step();
                  const Tensor made = g(randn({x.size(0), 4}, noise));
                  const double seen =
                      critic.backward(mean(softplus(-d(x))) + mean(softplus(d(made.detach()))));
                  critic.step();
                  between();
                  const double fooled = generator.backward(mean(softplus(-d(made))));
                  generator.step();
                  means.add("fooled", fooled, 1);
                  return seen + fooled;
                }};
  }
};

}  // namespace

TEST_CASE("several: the weights equal those of a loop by hand, with no extra gradients") {
  Gan gan;
  for (int i = 0; i < 5; ++i) gan.loop.step();
  // The loop by hand, as in PyTorch.
  Rng rng(5), noise(6);
  Mlp g(4, 2, rng), d(2, 1, rng);
  optim::Adam g_optimizer(nn::named_parameters(g), {.lr = 1e-2, .beta1 = .5});
  optim::AdamW d_optimizer(nn::named_parameters(d), {.lr = 2e-2, .beta1 = .5});
  auto loader = numbers();
  const auto schedule = optim::cosine({.total = 30});
  for (int i = 0; i < 5; ++i) {
    const Tensor x = *loader.next(), made = g(randn({8, 4}, noise));
    d_optimizer.zero_grad();
    (mean(softplus(-d(x))) + mean(softplus(d(made.detach())))).backward();
    optim::clip_grad_norm(d_optimizer.parameters(), 1);
    d_optimizer.step();
    mean(softplus(-d(made))).backward();
    g_optimizer.set_lr_factor(schedule(i));
    g_optimizer.step();
    g_optimizer.zero_grad();
  }
  check_same(nn::state_dict(gan.g), nn::state_dict(g));
  check_same(nn::state_dict(gan.d), nn::state_dict(d));
  CHECK(gan.loop.steps() == 5);
  CHECK(gan.loop.step_history().size() == 5);
  CHECK_FALSE(gan.d.up.weight.own().grad().defined());  // though the generator's loss uses it
}

TEST_CASE("several: a run stopped or killed anywhere has the bits of an uninterrupted one") {
  TempDir dir;
  Gan whole({.folder = dir / "whole"});
  REQUIRE(whole.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.steps() == 15);
  for (int64_t step = 1; step <= 15; ++step)
    for (const bool killed : {false, true}) {
      CAPTURE(step);
      CAPTURE(killed);
      const LoopOptions options{.folder = dir / fmt::format("{}-{}", step, killed),
                                .checkpoint_steps = killed ? 2 : 0};
      {
        Gan t(options);
        // In the middle of a step, when only the critic has been updated.
        t.between = [&] {
          if (t.loop.steps() + 1 == step) end_run(killed);
        };
        run_until_ended(t, killed);
      }
      Gan again(options);
      REQUIRE(again.loop.resume());
      REQUIRE(again.loop.run() == Outcome::finished);
      check_same(whole.loop.state().tensors, again.loop.state().tensors);
      CHECK(read_file(again.loop.folder().weights()) == read_file(whole.loop.folder().weights()));
    }
}

TEST_CASE("several: the weights or averages are written under the learners' names") {
  TempDir dir;
  Gan gan({.steps = 7, .evaluate_steps = 3, .folder = dir / "run", .tensorboard = true});
  REQUIRE(gan.loop.run() == Outcome::finished);
  CHECK(gan.loop.history().size() == 3);
  CHECK(gan.loop.history()[0].has("train_fooled"));
  Rng rng(0);
  Both both{Mlp(4, 2, rng), Mlp(2, 1, rng)};
  nn::load_weights(gan.loop.folder().weights(), both);
  CHECK(same_bits(both.critic.up.weight.own(), gan.d.up.weight.own()));
  CHECK_FALSE(same_bits(both.generator.up.weight.own(), gan.g.up.weight.own()));  // has averages
  Learner::Evaluation scope(gan.generator);
  CHECK(same_bits(both.generator.up.weight.own(), gan.g.up.weight.own()));
}

TEST_CASE("several: in an evaluation all models are in evaluation mode, with their averages") {
  Gan gan;
  bool asked = false;
  gan.before_step = [&] { CHECK(gan.g.dropout.training); };
  Loop loop(gan.learners(), gan.loader,
            {.evaluate =
                 [&] {
                   asked = true;
                   CHECK_FALSE(gan.g.dropout.training);
                   CHECK_FALSE(gan.d.dropout.training);
                   return Metrics{{"real", 0}};
                 },
             .step = gan.task().step},
            Gan::with({}));
  while (!loop.epoch_trained()) loop.step();
  REQUIRE(loop.close_epoch());
  CHECK(asked);
  CHECK(gan.g.dropout.training);
}

TEST_CASE("several: an error about a value that is not finite names the learner") {
  Gan gan;
  gan.before_step = [&] {
    NoGradGuard no_grad;
    if (gan.loop.steps() == 2) copy_(gan.d.up.bias, full({16}, kNan));
  };
  gan.loop.step(), gan.loop.step();
  CHECK_THROWS_WITH_AS(gan.loop.step(), doctest::Contains("the loss of critic is "), Diverged);
}

namespace {

// Sharpness-aware steps: the gradient is taken at a point of higher loss, and the update starts
// from the original point.
struct Sharp {
  Rng rng{7};
  Net model{rng};
  datasets::Loader<Points> loader = points();
  optim::Sgd optimizer{nn::named_parameters(model), {.lr = .1, .momentum = .9}};
  Learner learner{model, optimizer, {.ema = .9}};
  Loop loop{learner,
            loader,
            {.step = [this](const Points& p, Means&) { return ascend_and_step(p); }},
            {.epochs = 2, .terminal = false}};

  double ascend_and_step(const Points& p) {
    const double value = learner.backward(cross_entropy(model(p.x), p.label));
    std::vector<Tensor> ascents;
    for (const auto& [name, w] : learner.parameters()) {
      ascents.push_back(w.grad() * .05);
      NoGradGuard no_grad;
      add_(w, ascents.back());
    }
    learner.clear_gradients();
    learner.backward(cross_entropy(model(p.x), p.label));
    for (size_t i = 0; i < ascents.size(); ++i) {
      NoGradGuard no_grad;
      add_(learner.parameters()[i].second, -ascents[i]);
    }
    learner.step();
    return value;
  }
  void step() {
    if (loop.epoch_trained()) REQUIRE(loop.close_epoch());
    loop.step();
  }
};

}  // namespace

TEST_CASE("several: one learner with a Task::step, such as sharpness-aware steps") {
  const auto trained = [](int64_t before) {
    Sharp first, second;
    for (int64_t i = 0; i < before; ++i) first.step();
    second.loop.load_state(first.loop.state(), "c");
    for (int64_t i = before; i < 10; ++i) second.step();
    CHECK(second.loop.steps() == 10);
    return second.model.up.weight.own().to_vector<float>();
  };
  const auto whole = trained(0);
  for (const int64_t before : {1, 5, 6, 9}) CHECK(trained(before) == whole);
}

TEST_CASE("several: a part that two models share gets gradients from both learners' losses") {
  struct Loss {
    static Tensor of(const Mlp& m) { return mean(square(m(ones({1, 4})))); }
  };
  Rng rng(0);
  Mlp a(4, 1, rng), b(4, 1, rng);
  const NamedTensors up = nn::named_parameters(a.up), down = nn::named_parameters(b.down);
  NamedTensors shared = up;
  shared.insert(shared.end(), down.begin(), down.end());
  for (size_t i = 2; i < 4; ++i) shared[i].first = "other." + shared[i].first;
  optim::Sgd first(nn::named_parameters(a), {.lr = .1}), second(shared, {.lr = .1});
  Learner one(a, first), two(b, second, {.check_graph = false});
  one.train_beside("one", two.parameters());
  two.train_beside("two", one.parameters());
  two.backward(mean(square(b.down(leaky_relu(a.up(ones({1, 4})), .2)))));
  CHECK(a.up.weight.own().grad().defined());
  two.step();
  one.backward(Loss::of(a));
  CHECK(a.up.weight.own().grad().defined());
  CHECK_FALSE(b.down.weight.own().grad().defined());
}

TEST_CASE("several: invalid learners, tasks and options") {
  Gan gan;
  const auto refused = [&](const std::vector<NamedLearner>& learners, Task<Tensor> task,
                           const LoopOptions& o, const char* why) {
    CHECK_THROWS_WITH_AS(Loop(learners, gan.loader, std::move(task), o), doctest::Contains(why),
                         Error);
  };
  const auto loss = [&](const Tensor& x) { return mean(gan.d(x)); };
  const LoopOptions o = Gan::with({});
  refused(gan.learners(), {.loss = loss}, o, "2 learners need a Task::step");
  refused({}, gan.task(), o, "there is no learner");
  refused({{"a", gan.critic}, {"a", gan.generator}}, gan.task(), o, "two learners are called 'a'");
  refused({{"a.b", gan.critic}, {"a", gan.generator}}, gan.task(), o, "cannot be called 'a.b'");
  Task<Tensor> both = gan.task();
  both.loss = loss;
  refused(gan.learners(), both, o, "a Task has a loss or a step, one of the two");
  LoopOptions accumulating = o;
  accumulating.accumulate = 2;
  refused(gan.learners(), gan.task(), accumulating, "Task::step takes one batch per step");
  dist::World alone;
  LoopOptions ranks = o;
  ranks.parallel = {.world = &alone};
  refused(gan.learners(), gan.task(), ranks, "Task::step takes one batch per step");
}

}  // namespace tern::test::test_train_several
