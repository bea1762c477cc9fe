// What a program does with the model beside the steps: it loads weights late, saves in an
// evaluation, unfreezes parts, evaluates a copy.
#include "tern/tests/train/train_fixture.h"

namespace tern::test_train_models {
namespace {

using namespace test;

LearnerOptions plain() { return {.ema = 0.9}; }

TEST_CASE("averages: they start at weights that were loaded after the learner was made") {
  for (const bool in_backward : {false, true}) {
    CAPTURE(in_backward);
    Rng rng(1);
    nn::Linear pretrained(3, 2, rng), late(3, 2, rng), early = pretrained;
    const LearnerOptions options = {.ema = 0.999,
                                    .lookahead = optim::LookaheadOptions{.every = 2, .decay = 0.5},
                                    .step_in_backward = in_backward};
    optim::Sgd late_sgd(nn::named_parameters(late), {.lr = 0.1});
    optim::Sgd early_sgd(nn::named_parameters(early), {.lr = 0.1});
    Learner after(early, early_sgd, options), before(late, late_sgd, options);
    nn::load_state_dict(late, nn::state_dict(pretrained));
    check_same(before.weights(), nn::state_dict(pretrained));
    {
      const Learner::Evaluation evaluation(before);
      check_same(nn::state_dict(late), nn::state_dict(pretrained));
    }
    for (int i = 0; i < 4; ++i) {
      for (auto [learner, model] : {std::pair(&before, &late), {&after, &early}}) {
        learner->backward(mean(square((*model)(ones({1, 3})))));
        learner->step();
      }
    }
    check_same(nn::state_dict(late), nn::state_dict(early));
    check_same(before.weights(), after.weights());
  }
}

TEST_CASE("averages: a decay outside [0, 1) is refused") {
  for (const double decay : {-0.5, 1.0}) {
    const LearnerOptions options{.ema = decay};
    CHECK_THROWS_WITH_AS(Training({}, options), doctest::Contains("decay must lie in [0, 1)"),
                         Error);
  }
}

TEST_CASE("averages: a checkpoint in an evaluation has the weights that are trained") {
  Training t({}, plain());
  NamedTensors weights, found;
  t.evaluated = [&] {
    if (t.loop.epoch() < 2) return;
    const SafeTensors state = t.loop.state();
    for (const auto& [name, w] : nn::state_dict(t.model))
      found.emplace_back(name, state.find("model." + name).clone());
  };
  while (t.loop.epoch() < 3) {
    while (!t.loop.epoch_trained()) t.loop.step();
    weights = copies(nn::state_dict(t.model));
    REQUIRE(t.loop.close_epoch());
  }
  check_same(found, weights);
}

TEST_CASE("averages: a checkpoint of a model that holds them at the moment is an error") {
  Rng rng(2);
  nn::Linear model(2, 2, rng);
  optim::Ema ema(nn::state_dict(model));
  Checkpoint checkpoint;
  checkpoint.add("model", model);
  checkpoint.add("ema", ema);
  {
    const optim::EmaScope averaged(ema);
    CHECK_THROWS_WITH_AS(checkpoint.state(),
                         doctest::Contains("'weight' of 'model' holds averaged"), Error);
  }
  CHECK_NOTHROW(checkpoint.state());
}

TEST_CASE("train: a part that is unfrozen in a run, and that the optimizer lacks, is an error") {
  for (const bool check_graph : {true, false}) {
    Rng rng(3);
    Net model(rng);
    nn::freeze(model.up);
    NamedTensors trained;
    for (const auto& named : nn::named_parameters(model))
      if (named.second.requires_grad()) trained.push_back(named);
    optim::Sgd sgd(trained, {.lr = 0.1});
    Learner learner(model, sgd, {.check_graph = check_graph});
    auto loader = points();
    Loop loop(learner, loader, {.loss = loss_of(model)},
              {.epochs = 3, .terminal = false, .on_epoch = [&](const EpochRecord& e) {
                 if (e.epoch == 1) nn::unfreeze(model.up);
               }});
    if (check_graph)
      CHECK_THROWS_WITH_AS(loop.run(), doctest::Contains("the optimizer lacks: up.weight, up.bias"),
                           Error);
    else
      CHECK(loop.run() == Outcome::finished);
    CHECK(loop.history().size() == (check_graph ? 1 : 3));
  }
}

TEST_CASE("train: an evaluation of a copy of the model is an error") {
  Rng rng(4);
  Net model(rng);
  optim::Sgd sgd(nn::named_parameters(model), {.lr = 0.1});
  const Tensor x = ones({2, 4});
  const auto run = [&](const Evaluate& evaluate) {
    Learner learner(model, sgd);
    auto loader = points();
    Loop loop(learner, loader, {.loss = loss_of(model), .evaluate = evaluate},
              {.epochs = 2, .terminal = false});
    const Outcome outcome = loop.run();  // may throw
    CHECK(outcome == Outcome::finished);
  };
  CHECK_THROWS_WITH_AS(run([=] {
                         return Metrics{{"mean", mean(model(x)).item()}};
                       }),
                       doctest::Contains("uses a copy of the model's 'up.weight'"), Error);
  const Net first = model;
  run([&] {  // how far the model has moved
    return Metrics{{"moved", mean(abs(model(x) - first(x))).item()}};
  });
  Net rounded = model;
  run([&] {
    rounded = model;  // the weights of now
    return Metrics{{"mean", mean(rounded(x)).item()}};
  });
  run([&] {
    const Net rounded = model;
    return Metrics{{"mean", mean(rounded(x)).item()}};
  });
}

TEST_CASE("train: an evaluation may iterate over the loader of the training") {
  const auto run = [](bool reads) {
    Training t;
    if (reads)
      t.evaluated = [&t, evaluations = 0]() mutable {
        int batches = 0;
        for (Points& p : t.loader)
          if (p.x.defined() && ++batches == 2 && ++evaluations % 2) break;
      };
    CHECK(t.loop.run() == Outcome::finished);
    return copies(t.learner.weights());
  };
  check_same(run(true), run(false));
}

}  // namespace
}  // namespace tern::test_train_models
