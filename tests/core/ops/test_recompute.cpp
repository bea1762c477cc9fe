// Recomputation: running statistics of norms, fused formulas, names. RecomputeScope and checkpoint
// by themselves are in test_recompute_scope.cpp, models with the option in
// tests/models/test_zoo.cpp.
#include <doctest/doctest.h>

#include <optional>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/fused.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"

namespace tern::test::test_recompute {

TEST_CASE("recompute: running statistics of norms equal those without a checkpoint") {
  Rng rng(3);
  const Tensor x = randn({3, 2, 5}, rng).set_requires_grad();
  const auto run = [&](auto layer, bool twice) {
    const auto fn = [&layer](std::span<const Tensor> in) { return layer(in[0]); };
    const auto around = [&](std::span<const Tensor> in) { return checkpoint(fn, {in[0]}); };
    const Tensor y = twice ? checkpoint(around, {x}) : layer(x);
    CHECK_FALSE(recomputing());
    sum(square(y)).backward();
    std::vector<std::vector<double>> out;
    for (const auto& named : nn::named_buffers(layer)) {
      const Tensor& t = named.second;
      out.push_back(t.template to_vector<double>());
    }
    return out;
  };
  const nn::BatchNorm1d batch(2);
  CHECK(run(batch, true) == run(batch, false));
  const nn::BatchNorm1d mean_of_all(2, {.momentum = std::nullopt});
  CHECK(run(mean_of_all, true) == run(mean_of_all, false));
  const nn::InstanceNorm1d each(2, {.track_running_stats = true});
  CHECK(run(each, true) == run(each, false));
}

TEST_CASE("recompute: fused formulas are recomputed only if their inputs are kept anyway") {
  Rng rng(3);
  const Tensor u = randn({64, 1, 256}, rng).set_requires_grad();
  const Tensor v = randn({64, 40, 256}, rng).set_requires_grad();
  const Tensor b = randn({40, 1}, rng).set_requires_grad();
  const Tensor w = randn({8, 256}, rng).set_requires_grad();
  const Tensor one = ones({1}).set_requires_grad();
  auto gate = [&](const Tensor& x) {
    return fused(
        "gate", [](auto a, auto c, auto d) { return a * (c + d); }, u, x, b);
  };
  auto sum_of_all = [&](const Tensor& x) {  // no gradient needs an input
    return fused(
        "sum", [](auto a, auto c, auto d) { return a + c + d; }, u, x, b);
  };
  struct Run {
    std::vector<float> numbers;
    int64_t kept = 0;
  };
  auto run = [&](auto formula, bool recompute, bool twice) {
    std::optional<RecomputeScope> scope;
    if (recompute) scope.emplace();
    const int64_t before = memory_stats().live;
    const Tensor y = sum(square(linear(formula(v * one), w)));
    Run out{{y.item<float>()}, memory_stats().live - before};
    scope.reset();
    std::vector<Tensor> gradients = grad({y}, {u, v, b}, {.create_graph = twice});
    if (twice) gradients = grad({sum(square(gradients[1]))}, {u, v, b}, {.allow_unused = true});
    for (const Tensor& t : gradients)
      if (t.defined())
        for (const float g : t.to_vector<float>()) out.numbers.push_back(g);
    return out;
  };
  for (const bool twice : {false, true}) {
    const Run kept = run(gate, false, twice), again = run(gate, true, twice);
    CHECK(again.numbers == kept.numbers);
    CHECK(again.kept < kept.kept - v.numel() * 7 / 2);  // the result of the gate is not kept
    const Run sums = run(sum_of_all, false, twice), same = run(sum_of_all, true, twice);
    CHECK(same.numbers == sums.numbers);
    CHECK(same.kept == sums.kept);
  }
}

TEST_CASE("recompute: names") {
  for (const std::string& n : nn::recompute_names()) CHECK(nn::name(nn::recompute_named(n)) == n);
  CHECK_THROWS_WITH_AS(nn::recompute_named("some"), doctest::Contains("none, selective, full"),
                       Error);
}

}  // namespace tern::test::test_recompute
