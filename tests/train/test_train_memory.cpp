// How learner and loop save memory: state allocated early, and steps inside backward, with the same
// bits as steps after it.
#include <doctest/doctest.h>

#include "tern/core/base/allocator.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_memory {
namespace {

LearnerOptions in_backward(bool on) {
  return {
      .schedule = optim::cosine({.warmup = 2, .total = 20}), .ema = 0.9, .step_in_backward = on};
}

/// A layer large enough to show in the memory statistics, and its optimizer.
struct Wide {
  Rng rng{1};
  nn::Linear layer;
  optim::AdamW optimizer;

  Wide() : layer(512, 512, rng), optimizer(nn::named_parameters(layer)) {}
};

}  // namespace

TEST_CASE("train: the optimizer's state is allocated before the first forward pass") {
  Wide w;
  const int64_t before = memory_stats().live;
  {
    const Learner none(w.layer, w.optimizer, {.allocate_state = false});
    CHECK(memory_stats().live == before);
  }
  const Learner learner(w.layer, w.optimizer);
  const int64_t state = memory_stats().live - before;
  CHECK(state >= 2 * 4 * 512 * 512);
  CHECK(w.optimizer.state_dict().empty());  // no steps yet
  // Frozen parameters have no state.
  Wide frozen;
  frozen.layer.weight.tensor().set_requires_grad(false);
  const int64_t live = memory_stats().live;
  const Learner other(frozen.layer, frozen.optimizer);
  CHECK(memory_stats().live - live < state / 10);
}

TEST_CASE("train: a loop with steps inside backward has the bits of one without") {
  SafeTensors states[2];
  for (const bool on : {false, true}) {
    Rng rng(7);
    Net model(rng);
    auto loader = points();
    optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.02});
    Learner learner(model, optimizer, in_backward(on));
    Task<Points> task{.loss = loss_of(model)};
    Loop loop(learner, loader, task, {.epochs = 2, .terminal = false});
    while (!loop.finished()) {
      if (loop.epoch_trained())
        loop.close_epoch();
      else
        loop.step();
    }
    states[on] = loop.state();
  }
  check_same(states[0], states[1]);
}

TEST_CASE("train: steps inside backward free each gradient immediately") {
  Rng rng(3);
  std::vector<nn::Linear> layers;
  for (int i = 0; i < 6; ++i) layers.emplace_back(512, 512, rng);
  NamedTensors p;
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, t] : nn::named_parameters(layers[i]))
      p.emplace_back(fmt::format("{}.{}", i, name), t);
  auto peak = [&](bool on) {
    optim::Sgd optimizer(p, {.lr = 1e-3});
    Learner learner(layers[0], optimizer, {.check_graph = false, .step_in_backward = on});
    trim_memory();
    const int64_t before = memory_stats().live;
    reset_peak_memory();
    Tensor x = ones({4, 512});
    for (const nn::Linear& layer : layers) x = layer(x);
    learner.backward(sum(x));
    x = {};
    learner.step();
    return memory_stats().peak - before;
  };
  const int64_t matrix = 4 * 512 * 512;
  CHECK(peak(false) > 6 * matrix);
  CHECK(peak(true) < 2 * matrix);
}

TEST_CASE("train: options that need all gradients are errors together with step_in_backward") {
  Wide w;
  CHECK_THROWS_WITH_AS(Learner(w.layer, w.optimizer, {.clip = 1, .step_in_backward = true}),
                       doctest::Contains("a bound on the norm of all gradients (1)"), Error);
  CHECK_THROWS_WITH_AS(Training({}, in_backward(true)),
                       doctest::Contains("a step of 4 batches needs their gradients together"),
                       Error);
  Learner learner(w.layer, w.optimizer, in_backward(true));
  auto pass = [&] { learner.backward(sum(w.layer(ones({2, 512})))); };
  pass();
  CHECK_THROWS_WITH_AS(pass(), doctest::Contains("call step() before the next one"), Error);
  learner.step();
  CHECK(learner.steps() == 1);
  pass();
  learner.clear_gradients();  // drops the step
  CHECK_NOTHROW(pass());
}

TEST_CASE("train: a gradient that is not finite reaches no weight, even inside backward") {
  Rng rng(1);
  Net model(rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.1});
  Learner learner(model, optimizer, in_backward(true));
  const Tensor x = ones({4, 4}), label = zeros({4}, DType::i64);
  const auto before = model.down.bias.tensor().to_vector<float>();
  const Tensor loss = cross_entropy(model(x), label) + sum(sqrt(model.down.bias.tensor() * 0));
  CHECK_THROWS_WITH_AS(learner.backward(loss),
                       doctest::Contains("the gradient of 'down.bias' is nan"), Diverged);
  CHECK(model.down.bias.tensor().to_vector<float>() == before);
  for (const auto& [name, t] : nn::named_parameters(model)) CHECK(all(isfinite(t)).item<bool>());
  CHECK(learner.steps() == 0);
}

}  // namespace tern::test::test_train_memory
