// summary(): the predicted memory of a training step against the real peak, and the
// counted operations.
#include <doctest/doctest.h>

#include "tern/core/base/flops.h"
#include "tern/core/base/shape_only.h"
#include "tern/models/gmlp.h"
#include "tern/models/gpt.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/memory_checks.h"
#include "tern/tests/support/model_checks.h"
#include "tern/train/summary.h"

namespace tern::test::test_summary {
namespace {

struct Mlp {
  nn::Linear up;
  std::vector<nn::Linear> middle;
  nn::Linear down;
  explicit Mlp(Rng& rng) : up(64, 256, rng), down(256, 8, rng) {
    for (int i = 0; i < 3; ++i) middle.emplace_back(256, 256, rng);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor h = relu(up(x));
    for (const nn::Linear& layer : middle) h = relu(layer(h));
    return down(h);
  }
  static void fields(auto& m, auto&& visit) {
    visit("up", m.up);
    visit("middle", m.middle);
    visit("down", m.down);
  }
};

}  // namespace

TEST_CASE("summary: the memory of a step of a model of one's own, as the allocator sees it") {
  // The models of the zoo: tests/models/test_zoo_memory.cpp.
  Rng rng(1);
  int64_t said = 0;
  {
    ShapeOnlyScope nothing;
    said = summary(Mlp(rng), Shape{512, 64}).cost.peak();
  }
  trim_memory();
  CHECK(summary(Mlp(rng), Shape{512, 64}).cost.peak() == said);
  check_peak(said, [&] {
    const Mlp model(rng);
    const Tensor x = zeros({512, 64});
    optim::AdamW optimizer(nn::named_parameters(model));
    for (int i = 0; i < 2; ++i) {
      backward(sum(model(x)));
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

TEST_CASE("summary: allocates nothing and leaves the model unchanged") {
  Rng rng(0);
  nn::Sequential model(nn::Conv2d(3, 8, 3, rng), nn::BatchNorm2d(8), nn::Dropout(0.5, rng));
  static_cast<void>(model(ones({2, 3, 5, 5})));
  backward(sum(model(ones({2, 3, 5, 5}))));
  nn::set_training(model, false);
  std::vector<Tensor> before;
  const NamedTensors drawn = nn::generator_state(model);
  for (const auto& [name, t] : nn::state_dict(model)) before.push_back(t.clone());
  const Tensor gradient = nn::parameters(model)[0].grad(), copy = gradient.clone();
  reset_peak_memory();
  const Summary s = summary(model, Shape{4096, 3, 64, 64});
  CHECK(s.cost.peak() > 1'000'000'000);
  CHECK(memory_stats().peak - memory_stats().live < 10'000);  // copies of the buffers
  size_t i = 0;
  for (const auto& [name, t] : nn::state_dict(model)) CHECK(same(t, before[i++]));
  CHECK(same(nn::generator_state(model)[0].second, drawn[0].second));
  CHECK_FALSE(model.get<2>().training);
  CHECK(nn::parameters(model)[0].grad().ref() == gradient.ref());
  CHECK(same(gradient, copy));
}

TEST_CASE("summary: weights, gradients, state and activations by kind") {
  Rng rng(0);
  const Mlp model(rng);
  const Summary s = summary(model, Shape{512, 64});
  const StepCost& c = s.cost;
  auto bytes = [&](MemoryKind k) { return c.most[k]; };
  const int64_t weights = bytes(MemoryKind::weights);
  CHECK(weights >= 4 * nn::num_parameters(model));
  CHECK(bytes(MemoryKind::gradients) == weights);
  CHECK(bytes(MemoryKind::optimizer) == 2 * weights);
  CHECK(bytes(MemoryKind::batch) == 512 * 64 * 4);
  // The outputs of four layers, 512 x 256 each, and small tensors.
  CHECK(bytes(MemoryKind::activations) >= 4 * 512 * 256 * 4);
  CHECK(bytes(MemoryKind::activations) < 9 * 512 * 256 * 4);
  const Summary sgd =
      summary(model,
              [&] {
                return sum(model(zeros({512, 64})));
              },
              {.optimizer = [](const NamedTensors& p) { return std::make_unique<optim::Sgd>(p); }});
  CHECK(sgd.cost.most[MemoryKind::optimizer] == 0);
}

TEST_CASE("summary: with accumulated batches gradients and activations are in memory together") {
  Rng rng(0);
  const Mlp model(rng);
  auto step = [&](int64_t accumulate) {
    return summary(model,
                   [&] {
                     return sum(model(zeros({2048, 64})));
                   },
                   {.accumulate = accumulate});
  };
  const Summary one = step(1), two = step(2), three = step(3);
  CHECK(two.cost.forward_flops == 2 * one.cost.forward_flops);
  CHECK(two.cost.peak() > one.cost.peak());
  CHECK(three.cost.peak() == two.cost.peak());
  check_peak(two.cost.peak(), [&] {
    Rng again(0);
    const Mlp real(again);
    optim::AdamW optimizer(nn::named_parameters(real));
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 2; ++k) backward(sum(real(zeros({2048, 64}))));
      optimizer.step();
      optimizer.zero_grad();
    }
  });
}

namespace {

struct Way {
  nn::Recompute recompute = nn::Recompute::none;
  int bits = 32;
  bool in_backward = false;
};

/// The predicted peak of a step of a language model on `texts` texts, checked against the real one.
int64_t peak_of(const Way& way, int64_t texts) {
  auto make = [&] {
    Rng rng(1);
    models::GptOptions o{.vocab = 900, .context = 64, .dim = 128, .layers = 4, .heads = 4};
    o.recompute = way.recompute;
    return models::Gpt(o, rng);
  };
  auto optimizer_of = [&](const NamedTensors& p) {
    return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.state_bits = way.bits});
  };
  int64_t said = 0;
  {
    ShapeOnlyScope nothing;
    const models::Gpt model = make();
    Tensor x;
    const Summary s =
        summary(model, [&] { return model.loss(x, x); },
                {.batch =
                     [&] {
                       x = zeros({texts, 64}, DType::i64);
                     },
                 .optimizer = optimizer_of,
                 .learner = {.check_graph = false, .step_in_backward = way.in_backward}});
    const int64_t weights = s.cost.most[MemoryKind::weights];
    if (way.bits == 8) CHECK(s.cost.most[MemoryKind::optimizer] < weights * 6 / 10);
    if (way.in_backward) CHECK(s.cost.most[MemoryKind::gradients] < weights / 10);
    said = s.cost.peak();
  }
  check_peak(said, [&] {
    const models::Gpt model = make();
    auto optimizer = optimizer_of(nn::named_parameters(model));
    training::Learner learner(model, *optimizer, {.step_in_backward = way.in_backward});
    const Tensor x = reshape(remainder(arange(0, texts * 64), 900), {texts, 64});
    for (int i = 0; i < 2; ++i) {
      learner.backward(model.loss(x, x));
      learner.step();
    }
  });
  return said;
}

}  // namespace

TEST_CASE("summary: includes the options that save memory") {
  using nn::Recompute;
  for (const int64_t texts : {1, 8}) {  // mostly weights, or mostly activations
    const int64_t most = peak_of({}, texts);
    const int64_t inside = peak_of({.in_backward = true}, texts);
    const int64_t selective = peak_of({.recompute = Recompute::selective}, texts);
    const int64_t full = peak_of({.recompute = Recompute::full}, texts);
    CHECK(peak_of({.bits = 8}, texts) < most);
    CHECK(peak_of({Recompute::full, 8, true}, texts) < most * 2 / 3);
    if (texts == 1) CHECK(inside < most);
    if (texts == 8) CHECK(selective < most);
    if (texts == 8) CHECK(full < selective);
  }
}

TEST_CASE("summary: operations equal those that the kernels count") {
  Rng rng(0);
  const models::Gmlp model({.stem = {{.channels = 8}}, .dim = 64, .layers = 2}, rng);
  const Summary s = summary(model, Shape{4, 3, 32, 32});
  const int64_t start = tern::detail::counted_flops;
  const Tensor loss = sum(model(zeros({4, 3, 32, 32})));
  const int64_t forward = tern::detail::counted_flops - start;
  backward(loss);
  CHECK(s.cost.forward_flops == forward);
  CHECK(s.cost.backward_flops == tern::detail::counted_flops - start - forward);
  CHECK(s.cost.update_flops == 0);
  CHECK_FALSE(contains(s.costs(), "update"));
}

TEST_CASE("summary: counts operations of the update, and recomputed ones in backward") {
  auto cost_of = [](nn::Recompute recompute, bool muon) {
    Rng rng(1);
    models::GptOptions o{.vocab = 90, .context = 16, .dim = 32, .layers = 2, .heads = 4};
    o.recompute = recompute;
    const models::Gpt model(o, rng);
    const Tensor x = zeros({2, 16}, DType::i64);
    SummaryOptions options;
    if (muon)
      options.optimizer = [](const NamedTensors& p) {
        const optim::MuonParameters parts = optim::muon_parameters(p);
        return std::make_unique<optim::MuonWithAdamW>(std::vector<optim::MuonWithAdamW::Group>{
            {parts.hidden, optim::MuonOptions{}}, {parts.others, optim::AdamWOptions{}}});
      };
    return summary(
        model, [&] { return model.loss(x, x); }, options);
  };
  const StepCost adam = cost_of(nn::Recompute::none, false).cost;
  const Summary muon = cost_of(nn::Recompute::none, true);
  CHECK(adam.update_flops == 0);
  CHECK(muon.cost.forward_flops == adam.forward_flops);
  CHECK(muon.cost.backward_flops == adam.backward_flops);
  // Each of five Newton-Schulz steps takes 2 r^2 (2 c + r) for an (r, c) matrix with r <= c.
  const int64_t square = 5 * 2 * 32 * 32 * 3 * 32, wide = 5 * 2 * 32 * 32 * (2 * 128 + 32);
  const int64_t qkv = 5 * 2 * 32 * 32 * (2 * 96 + 32);
  CHECK(muon.cost.update_flops == 2 * (square + qkv + 2 * wide));
  CHECK(contains(muon.costs(), ", update 0."));
  const StepCost again = cost_of(nn::Recompute::full, false).cost;
  CHECK(again.forward_flops == adam.forward_flops);
  CHECK(again.backward_flops > adam.backward_flops);
}

TEST_CASE("summary: the tree with outputs, equal layers once") {
  Rng rng(0);
  const Summary s = summary(Mlp(rng), Shape{512, 64});
  const std::string tree = s.tree();
  CHECK(contains(tree, "up          linear  (512, 256)   16,640      0.017"));
  CHECK(contains(tree, "middle              (512, 256)  197,376      0.201"));
  CHECK(contains(tree, "  0-2: 3 x  linear  (512, 256)   65,792      0.067"));
  CHECK(contains(tree, "down        linear  (512, 8)      2,056      0.002"));
  CHECK(contains(tree, "total                           216,072      0.220"));
  CHECK(contains(s.costs(), "a training step: forward 0.220 GFLOP, backward 0.4"));
  CHECK(contains(s.costs(), "peak "));
  CHECK(contains(s.text(), tree));
}

TEST_CASE("summary: fewer than one pass per step, and fewer than one rank, are refused") {
  Rng rng(1);
  const nn::Linear model(2, 2, rng);
  const auto loss = [&] { return sum(model(ones({1, 2}))); };
  CHECK_THROWS_WITH_AS(summary(model, loss, {.accumulate = 0}),
                       "step_cost: 0 passes per update; at least 1", Error);
  CHECK_THROWS_WITH_AS(summary(model, loss, {.optimizer_ranks = 0}),
                       doctest::Contains("for 0 ranks; at least 1"), Error);
}

TEST_CASE("summary: a wrong shape is the model's own error") {
  Rng rng(0);
  const Mlp model(rng);
  CHECK_THROWS_WITH_AS(summary(model, Shape{4, 63}), doctest::Contains("up: linear: the input"),
                       Error);
  CHECK(nn::parameters(model)[0].requires_grad());
}

}  // namespace tern::test::test_summary
