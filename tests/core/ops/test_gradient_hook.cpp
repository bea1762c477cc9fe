// on_gradient, which calls a function with the gradient of a tensor in backward; the function may
// replace it.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/ops/gradients/gradient_hook.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gpt.h"
#include "tern/nn/weights_instead.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_gradient_hook {
namespace {

using test::op, test::f64, test::leaf, test::same_bits;

std::vector<double> gradient_of(const Tensor& t) { return t.grad().to_vector<double>(); }

TEST_CASE("op table: on_gradient") {
  op("on_gradient", {{2, 3}}, [](const std::vector<Tensor>& x) {
    return on_gradient(x[0], [](const Tensor& dy) { return dy; });
  }).equals([](const std::vector<test::Array>& x) { return x[0]; });
}

TEST_CASE("on_gradient: is called once with the whole gradient, and its result replaces it") {
  const Tensor x = leaf(f64({1, 2, 3}));
  std::vector<std::vector<double>> seen;
  const Tensor y = on_gradient(x * 2, [&](const Tensor& dy) {
    seen.push_back(dy.to_vector<double>());
    return dy * 10;
  });
  CHECK(same_bits(y.detach(), x.detach() * 2));
  backward(sum(y * 3) + sum(y * y));  // d / dy = 3 + 2 y = 3 + 4 x
  CHECK(seen == std::vector<std::vector<double>>{{7, 11, 15}});
  CHECK(gradient_of(x) == std::vector<double>{140, 220, 300});
}

TEST_CASE("on_gradient: sees only uses of its result; an undefined result changes nothing") {
  const Tensor x = leaf(f64({1, 2}));
  Tensor kept;
  const Tensor y = on_gradient(x, [&](const Tensor& dy) {
    kept = dy;
    return Tensor();
  });
  backward(sum(x * 100) + sum(y * 3));
  CHECK(kept.to_vector<double>() == std::vector<double>{3, 3});  // nothing was added to it in place
  CHECK(gradient_of(x) == std::vector<double>{103, 103});
}

TEST_CASE("on_gradient: the other operand of a sum keeps its gradient") {
  const Tensor a = leaf(f64({1, 2})), b = leaf(f64({3, 4}));
  backward(sum(a + on_gradient(b, [](const Tensor& dy) { return dy * 0.; })));
  CHECK(gradient_of(a) == std::vector<double>{1, 1});
  CHECK(gradient_of(b) == std::vector<double>{0, 0});
}

TEST_CASE("on_gradient: is called in every pass, and never without a recorded graph") {
  const Tensor x = leaf(f64({1, 2}));
  int calls = 0;
  const auto count = [&](const Tensor& dy) { return ++calls, dy; };
  {
    NoGradGuard guard;
    CHECK(!on_gradient(x, count).requires_grad());
  }
  static_cast<void>(on_gradient(x.detach(), count));
  const Tensor loss = sum(on_gradient(x, count));
  backward(loss, {.retain_graph = true});
  CHECK(calls == 1);
  static_cast<void>(grad({loss}, {x}));
  CHECK(calls == 2);
}

TEST_CASE("on_gradient: passes that the function runs over the same graph do not disturb it") {
  const Tensor x = leaf(f64({1, 2})), h = x * 2;
  const auto run_passes = [&](const Tensor& dy) {
    EnableGradGuard on;
    backward(sum(h * 5), {.retain_graph = true});
    CHECK(gradient_of(x) == std::vector<double>{10, 10});
    const Tensor dx = grad({sum(h * h)}, {x}, {.retain_graph = true})[0];
    CHECK(dx.to_vector<double>() == std::vector<double>{8, 16});
    return dy;
  };
  const Tensor hooked = on_gradient(h * 3, run_passes);
  const Tensor y = sum(hooked) + sum(h);  // the gradient of sum(h) waits while the function runs
  const Tensor dx = grad({y}, {x}, {.retain_graph = true})[0];
  CHECK(dx.to_vector<double>() == std::vector<double>{8, 8});
  CHECK(gradient_of(x) == std::vector<double>{10, 10});
  x.zero_grad();
  backward(y);
  CHECK(gradient_of(x) == std::vector<double>{18, 18});
}

TEST_CASE("on_gradient: second derivatives include the function") {
  // y = c x^2 with dy = c replaced by dy^2:  dx = 2 c^2 x, d dx / dx = 2 c^2, d dx / dc = 4 c x.
  const Tensor x = leaf(f64({1, 2, -3})), c = leaf(f64({0.5, -2, 4}));
  const Tensor y = on_gradient(x * x, [](const Tensor& dy) { return dy * dy; });
  const Tensor dx = grad({sum(c * y)}, {x}, {.create_graph = true})[0];
  CHECK(dx.to_vector<double>() == std::vector<double>{0.5, 16, -96});
  const auto second = grad({sum(dx)}, {x, c});
  CHECK(second[0].to_vector<double>() == std::vector<double>{0.5, 8, 32});
  CHECK(second[1].to_vector<double>() == std::vector<double>{2, -16, -48});
  // backward() without create_graph records nothing.
  bool recorded = true;
  backward(sum(c * on_gradient(x, [&](const Tensor& dy) {
                 const Tensor g = dy * c;
                 recorded = g.requires_grad();
                 return g;
               })));
  CHECK(!recorded);
}

TEST_CASE("on_gradient: is called once in a checkpoint, although that runs again") {
  const Tensor x = leaf(f64({1, 2}));
  int calls = 0;
  const auto fn = [&calls](std::span<const Tensor> in) {
    return on_gradient(in[0] * 3, [&calls](const Tensor& dy) { return ++calls, dy * 5; }) * 2;
  };
  backward(sum(checkpoint(fn, {x})));
  CHECK(calls == 1);
  CHECK(gradient_of(x) == std::vector<double>{30, 30});
}

TEST_CASE("on_gradient: a wrong result of the function is an error") {
  const Tensor x = leaf(f64({1, 2})), c = x.detach();
  const auto text = [&](std::function<Tensor(const Tensor&)> fn) {
    try {
      backward(sum(on_gradient(x, std::move(fn)) * c));
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(text([](const Tensor& dy) { return unsqueeze(dy, 0); }) ==
        "on_gradient: the function returned f64 (1, 2), but the gradient is f64 (2,)");
  CHECK(text([](const Tensor& dy) { return dy.to(DType::f32); }).find("f32") != std::string::npos);
  CHECK(text([](const Tensor& dy) { return mul_(dy, 2.), dy; }).find("the function wrote to") !=
        std::string::npos);
  CHECK(text({}) == "on_gradient: the function is empty; give one to call");
  CHECK(text([](const Tensor&) -> Tensor { throw std::runtime_error("mine"); }) == "mine");
  CHECK_THROWS_AS(on_gradient(Tensor(), [](const Tensor& dy) { return dy; }), Error);
  CHECK(!x.grad().defined());
}

TEST_CASE("on_gradient: on a weight of a model, with WeightsInstead") {
  Rng rng(1);
  const models::Gpt model(
      {.vocab = 7, .context = 4, .dim = 8, .layers = 1, .heads = 2, .dropout = 0}, rng);
  const Tensor tokens = randint(0, 7, {2, 4}, rng);
  const Tensor table = model.body.embed.own();  // the embedding and the head share it
  backward(model.loss(tokens, tokens));
  const Tensor plain = table.grad();
  nn::zero_grad(model);
  int calls = 0;
  const Tensor hooked =
      on_gradient(table, [&calls](const Tensor& dy) { return ++calls, dy * -2.; });
  Tensor loss;
  {
    nn::WeightsInstead scope(model, {{"transformer.wte.weight", hooked}});
    loss = model.loss(tokens, tokens);
  }
  backward(loss);
  CHECK(calls == 1);
  CHECK(same_bits(table.grad(), plain * -2.));
}

}  // namespace
}  // namespace tern::test_gradient_hook
