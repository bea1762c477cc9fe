// RecomputeScope, in which cheap results are recomputed in backward instead of kept: same bits,
// derivatives, writes, memory. Models that use it are tested in test_recompute.cpp.
#include <doctest/doctest.h>

#include <array>
#include <optional>

#include "tern/core/base/allocator.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test::test_recompute_scope {

TEST_CASE("RecomputeScope: recomputed results have the same bits") {
  Rng rng(2);
  // Odd sizes leave a remainder in every loop.
  const Tensor w = randn({131, 37}, rng).set_requires_grad(), b = randn({131}, rng);
  const Tensor g = (1 + randn({131}, rng)).detach().set_requires_grad();
  const Tensor x = randn({29, 37}, rng).set_requires_grad();
  for (const Activation a :
       {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
    auto run = [&](bool again) {
      std::optional<RecomputeScope> scope;
      if (again) scope.emplace();
      const Tensor h = linear(x, w, b, {.activation = a});
      const Tensor y = rms_norm(layer_norm(h * 2, {131}, g), {131}, g);
      scope.reset();
      for (const Tensor* t : {&x, &w, &g}) t->set_grad({});
      backward(sum(square(h) * y));
      std::vector<float> out;
      for (const Tensor* t : {&x, &w, &g})
        for (const float v : t->grad().to_vector<float>()) out.push_back(v);
      return out;
    };
    CHECK(run(true) == run(false));
  }
}

TEST_CASE("RecomputeScope: first and second derivatives") {
  Rng rng(4);
  auto draw = [&](const Shape& s) { return randn(s, rng, DType::f64).set_requires_grad(); };
  auto fn = [](const std::vector<Tensor>& in) {
    const RecomputeScope scope;
    const Tensor h = linear(in[0], in[1], {}, {.activation = Activation::gelu});
    return square(layer_norm(h, {4}, in[2])) * h;
  };
  const std::vector<Tensor> in = {draw({3, 5}), draw({4, 5}), draw({4})};
  gradcheck(fn, in);
  gradgradcheck(fn, in);
}

TEST_CASE("RecomputeScope: a result that is written to or detached") {
  Rng rng(6);
  const Tensor x = randn({8, 16}, rng).set_requires_grad(), w = randn({16, 16}, rng);
  auto gradient = [&](bool again, auto&& use) {
    std::optional<RecomputeScope> scope;
    if (again) scope.emplace();
    const Tensor h = linear(x, w, {}, {.activation = Activation::silu});
    const Tensor y = sum(square(h));  // saves h
    use(h);
    x.set_grad({});
    backward(y);
    return x.grad().clone();
  };
  auto nothing = [](const Tensor&) {};
  const Tensor want = gradient(false, nothing);
  CHECK(same_bits(gradient(true, nothing), want));
  auto write = [](const Tensor& h) {
    NoGradGuard guard;
    zero_(h);
  };
  CHECK_THROWS_AS(gradient(false, write), Error);
  CHECK(same_bits(gradient(true, write), want));  // recomputed with the old elements
  // An op after the write saves the new elements.
  const RecomputeScope scope;
  const Tensor h = linear(x, w, {}, {.activation = Activation::silu});
  {
    NoGradGuard guard;
    fill_(h, 3);
  }
  x.set_grad({});
  const Tensor loss = sum(h * h.detach());
  backward(loss);
  CHECK(x.grad().defined());
  CHECK(loss.item() == doctest::Approx(9 * h.numel()));
}

TEST_CASE("RecomputeScope: a detached result does not keep its graph alive") {
  Rng rng(7);
  const Tensor w = (randn({64, 64}, rng) * 0.1).detach().set_requires_grad();
  Tensor carried = ones({32, 64});
  std::vector<int64_t> live;
  for (int step = 0; step < 6; ++step) {
    const RecomputeScope scope;
    carried = layer_norm(linear(carried, w) + 1, {64}).detach();
    live.push_back(memory_stats().live);
  }
  CHECK(live.back() == live[1]);
  // Detached results that a loss needs are not recomputed from parameters that changed since.
  const Tensor x = randn({32, 64}, rng), v = randn({1, 64}, rng).set_requires_grad();
  const Tensor gain = ones({64}).set_requires_grad();
  Tensor loss, want;
  {
    const RecomputeScope scope;
    const Tensor y = layer_norm(linear(x, w), {64}, gain);
    want = sum(y.detach(), {0}, true);
    loss = sum(linear(y.detach(), v));
  }
  {
    const NoGradGuard guard;
    fill_(gain, 3);
  }
  backward(loss);
  CHECK(all_close(v.grad(), want, 1e-4, 1e-5));
}

TEST_CASE("RecomputeScope: a long chain of recomputed results") {
  const Tensor x = full({2, 3}, 0.5).set_requires_grad();
  const Tensor gain = full({3}, 1.0).set_requires_grad();
  auto run = [&](bool again) {
    std::optional<RecomputeScope> scope;
    if (again) scope.emplace();
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = rms_norm(y, {3}, gain);
    x.set_grad({});
    gain.set_grad({});
    backward(sum(y * y));
    return gain.grad().clone();
  };
  CHECK(same_bits(run(true), run(false)));
}

TEST_CASE("checkpoint: the gradient by one input does not run fn once per parameter") {
  Rng rng(8);
  const Tensor x = randn({3, 4}, rng, DType::f64).set_requires_grad();
  std::vector<Tensor> w;
  for (int i = 0; i < 9; ++i) w.push_back(randn({4}, rng, DType::f64).set_requires_grad());
  int runs = 0;
  auto fn = [&](std::span<const Tensor> in) {
    ++runs;
    Tensor y = in[0];
    for (const Tensor& factor : w) y = tanh(y * factor);
    return y;
  };
  auto second = [&](bool again) {
    const Tensor y = again ? checkpoint(fn, {x}) : fn(std::array{x});
    const Tensor dx = grad({sum(y)}, {x}, {.create_graph = true})[0];
    return grad({sum(square(dx))}, {x})[0];
  };
  const Tensor want = second(false);
  runs = 0;
  CHECK(all_close(second(true), want, 1e-10, 1e-12));
  CHECK(runs <= 4);
}

}  // namespace tern::test::test_recompute_scope
