// backward() with on_ready, which is called for each leaf once its gradient is complete; leaves
// that are frozen or deleted before backward; backward passes that fail.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <string_view>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/nn/linear.h"
#include "tern/nn/module.h"
#include "tern/optim/adam.h"
#include "tern/optim/sgd.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_on_ready {
namespace {

using test::leaf;

/// The calls of on_ready in order, and the gradient of each leaf at that moment.
struct Ready {
  std::vector<const void*> order;
  std::map<const void*, std::vector<float>> gradients;
  BackwardOptions options() {
    return {.on_ready = [this](const Tensor& leaf) {
      order.push_back(leaf.ref().get());
      if (leaf.grad().defined()) gradients[leaf.ref().get()] = leaf.grad().to_vector<float>();
    }};
  }
  int calls(const Tensor& t) const {
    return static_cast<int>(std::count(order.begin(), order.end(), t.ref().get()));
  }
};

TEST_CASE("on_ready: is called once per leaf, with the final gradient") {
  Rng rng(1);
  // w is used by two products, which add to its gradient in place, b by three sums, x twice in y.
  Tensor w = leaf(randn({6, 6}, rng)), b = leaf(randn({6}, rng)), x = leaf(randn({4, 6}, rng));
  auto loss = [&] {
    Tensor h = matmul(x, w) + b;
    Tensor y = tanh(matmul(h, w) + b) * x * x;
    return mean(square(y)) + sum(b * 0.5);
  };
  backward(loss());
  std::map<const void*, std::vector<float>> plain;
  for (const Tensor& t : {w, b, x}) {
    plain[t.ref().get()] = t.grad().to_vector<float>();
    t.set_grad({});
  }
  Ready ready;
  backward(loss(), ready.options());
  CHECK(ready.order.size() == 3);
  for (const Tensor& t : {w, b, x}) {
    CHECK(ready.calls(t) == 1);
    CHECK(ready.gradients[t.ref().get()] == plain[t.ref().get()]);
    CHECK(ready.gradients[t.ref().get()] == t.grad().to_vector<float>());
  }
}

TEST_CASE("on_ready is called while the rest of backward still has to run") {
  Rng rng(2);
  std::vector<Tensor> w;
  for (int i = 0; i < 5; ++i) w.push_back(leaf(randn({8, 8}, rng)));
  Tensor h = randn({3, 8}, rng);
  for (const Tensor& layer : w) h = tanh(matmul(h, layer));
  std::vector<bool> first_has_gradient;
  Ready ready;
  BackwardOptions options{.on_ready = [&](const Tensor& t) {
    ready.order.push_back(t.ref().get());
    first_has_gradient.push_back(w[0].grad().defined());
    t.set_grad({});  // frees the gradient at once
  }};
  backward(sum(h), options);
  REQUIRE(ready.order.size() == 5);
  for (size_t i = 0; i < 5; ++i) CHECK(ready.order[i] == w[4 - i].ref().get());
  CHECK(first_has_gradient == std::vector<bool>{false, false, false, false, true});
}

TEST_CASE("on_ready: writing to a leaf does not change the gradients of others") {
  Rng rng(3);
  Tensor a = leaf(randn({5, 5}, rng)), b = leaf(randn({5, 5}, rng)), x = randn({2, 5}, rng);
  auto loss = [&] { return sum(tanh(matmul(tanh(matmul(x, a)), b))); };
  backward(loss());
  std::vector<float> da = a.grad().to_vector<float>();
  a.set_grad({});
  b.set_grad({});
  backward(loss(), {.on_ready = [](const Tensor& t) { fill_(t, 100); }});
  CHECK(a.grad().to_vector<float>() == da);
  CHECK(b.to_vector<float>()[0] == 100);
}

TEST_CASE("on_ready: branches without a gradient, leaves without one, views, checkpoints") {
  Rng rng(4);
  Tensor a = leaf(randn({4}, rng)), b = leaf(randn({4}, rng)), unused = leaf(randn({4}, rng));
  // An op that gives its second input no gradient, so the ops before that input never run.
  auto first_only = [](const Tensor& x, const Tensor& y) {
    Op op("first_only", x, y);
    return op.record(Fresh::adopt(x.detach().clone()), [](const Tensor& dy) {
      return Gradients{dy, Tensor()};
    });
  };
  Tensor dead = exp(tanh(b) * unused);
  Tensor y = first_only(a * 2, dead) + b;
  Ready ready;
  backward(sum(y), ready.options());
  CHECK(ready.calls(a) == 1);
  CHECK(ready.calls(b) == 1);
  CHECK(ready.calls(unused) == 1);
  CHECK(ready.gradients.size() == 2);
  CHECK(ready.gradients[b.ref().get()] == std::vector<float>(4, 1));

  Ready views;
  a.set_grad({});
  backward(sum(a[0] + slice(a, 0, 1, 3) * 2), views.options());
  CHECK(views.calls(a) == 1);
  CHECK(views.gradients[a.ref().get()] == std::vector<float>{2, 2, 2, 0});

  Ready through;
  a.set_grad({});
  b.set_grad({});
  auto segment = [&](std::span<const Tensor> in) { return tanh(in[0] * b) * b; };
  backward(sum(checkpoint(segment, {a}) * b), through.options());
  CHECK(through.order.size() == 2);
  CHECK(through.gradients[b.ref().get()] == b.grad().to_vector<float>());

  Ready itself;
  Tensor s = leaf(randn({}, rng));
  backward(s, itself.options());
  CHECK(itself.calls(s) == 1);
  CHECK(itself.gradients[s.ref().get()] == std::vector<float>{1});
}

TEST_CASE("on_ready: steps of an optimizer inside backward give the bits of steps after it") {
  Rng rng(6);
  nn::Linear one(8, 16, rng), two(16, 4, rng);
  nn::Linear one_too = one, two_too = two;
  auto parameters = [](const nn::Linear& a, const nn::Linear& b) {
    return NamedTensors{
        {"a.weight", a.weight}, {"a.bias", a.bias}, {"b.weight", b.weight}, {"b.bias", b.bias}};
  };
  optim::AdamW inside(parameters(one, two)), after(parameters(one_too, two_too));
  for (int step = 0; step < 3; ++step) {
    Tensor x = randn({5, 8}, rng);
    auto loss = [&](const nn::Linear& a, const nn::Linear& b) {
      return mean(square(b(tanh(a(x))) + sum(a.weight)));  // a.weight is used twice
    };
    backward(loss(one, two), {.on_ready = inside.step_in_backward()});
    CHECK_FALSE(one.weight.grad().defined());  // freed as soon as it was used
    inside.step();
    backward(loss(one_too, two_too));
    after.step();
    after.zero_grad();
  }
  auto bits = [](const Tensor& t) { return t.to_vector<float>(); };
  CHECK(bits(one.weight) == bits(one_too.weight));
  CHECK(bits(two.weight) == bits(two_too.weight));
  CHECK(bits(two.bias) == bits(two_too.bias));
}

TEST_CASE("on_ready: a nested backward pass into a leaf that is not ready yet") {
  Tensor w = ones({2}), x = ones({2});
  for (const Tensor& t : {w, x}) t.set_requires_grad();
  Ready ready;
  BackwardOptions options = ready.options();
  options.on_ready = [&, note = options.on_ready](const Tensor& leaf) {
    note(leaf);
    if (leaf.ref() != x.ref()) return;
    EnableGradGuard on;
    backward(sum(w * 5), {.on_ready = [](const Tensor&) {}});
  };
  backward(sum(sin(w * 2) * x + exp(w) * 3), options);
  CHECK(ready.calls(w) == 1);
  CHECK(ready.gradients[w.ref().get()] == w.grad().to_vector<float>());
}

TEST_CASE("on_ready: nested passes over nodes whose gradients wait") {
  using Numbers = std::vector<double>;
  const Tensor x = leaf(ones({2})), w = leaf(ones({2})), h = x * 2;
  const Tensor early = sum(w * 3), y = sum(h * 7) + early;  // w is ready before h runs
  const auto nested = [&](const Tensor& ready) {
    if (ready.ref() != w.ref()) return;
    EnableGradGuard on;
    backward(sum(h * 5), {.retain_graph = true});
    CHECK(x.grad().to_vector<double>() == Numbers{10, 10});
    const Tensor dx = grad({sum(h * h)}, {x}, {.retain_graph = true})[0];
    CHECK(dx.to_vector<double>() == Numbers{8, 8});
  };
  backward(y, {.on_ready = nested});
  CHECK(x.grad().to_vector<double>() == Numbers{24, 24});
}

TEST_CASE("leaves that are frozen and unfrozen between forward and backward") {
  Rng rng(7);
  nn::Linear layer(4, 4, rng);
  Tensor w = layer.weight, b = layer.bias, x = randn({3, 4}, rng);
  auto loss = [&](bool again) {
    auto fn = [&](std::span<const Tensor> in) { return sum(square(layer(in[0]))); };
    return again ? checkpoint(fn, {x}) : fn(std::array{x});
  };
  backward(loss(false));
  const std::vector<float> dw = w.grad().to_vector<float>(), db = b.grad().to_vector<float>();
  for (bool again : {false, true}) {
    INFO("checkpoint: " << again);
    for (const Tensor& t : {w, b}) t.set_grad({});
    Tensor y = loss(again);
    for (const Tensor& t : {w, b}) t.set_requires_grad(false);
    for (const Tensor& t : {w, b}) t.set_requires_grad(true);
    std::vector<Tensor> found = grad({y}, {w}, {.retain_graph = true});
    CHECK(found[0].to_vector<float>() == dw);
    b.set_requires_grad(false);
    Ready ready;
    backward(y, ready.options());
    CHECK(ready.order == std::vector<const void*>{w.ref().get()});  // b is frozen
    CHECK(w.grad().to_vector<float>() == dw);
    b.set_requires_grad();
    CHECK_FALSE(b.grad().defined());
    backward(loss(again));
    CHECK(b.grad().to_vector<float>() == db);
  }
}

TEST_CASE("a parameter that was frozen from the start is trained once it is unfrozen") {
  Rng rng(8);
  nn::Linear layer(4, 4, rng);
  layer.weight.tensor().set_requires_grad(false);
  optim::Sgd optimizer(nn::named_parameters(layer), {.lr = 1});
  const Tensor before = layer.weight.tensor().clone(), x = randn({3, 4}, rng);
  auto step = [&] {
    backward(sum(layer(x)));
    optimizer.step();
  };
  step();
  CHECK(layer.weight.tensor().to_vector<float>() == before.to_vector<float>());
  layer.weight.tensor().set_requires_grad(true);
  step();
  CHECK(layer.weight.tensor().to_vector<float>() != before.to_vector<float>());
}

TEST_CASE("leaves that are frozen and deleted before backward") {
  Tensor y;
  {
    Tensor w = ones({2});
    w.set_requires_grad();
    y = sum(w * 3);
    w.set_requires_grad(false);
  }
  CHECK(leaves(y).empty());
  Ready ready;
  backward(y, ready.options());
  CHECK(ready.order.empty());
}

TEST_CASE("a backward pass that fails keeps the gradients of earlier passes") {
  Tensor w = ones({2});
  w.set_requires_grad();
  backward(sum(w * 3));
  Tensor held = w.grad();  // prevents adding in place
  struct Fails : Observer {
    void begin(const OpScope& op) override {
      if (std::string_view(op.name()) == "add") throw Error("no");
    }
  } fails;
  Tensor y = sum(w * 2);
  {
    ObserverScope watching(fails);
    CHECK_THROWS_AS(backward(y), Error);
  }
  REQUIRE(w.grad().defined());
  CHECK(w.grad().to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("on_ready: a retained graph runs twice; exceptions leave backward") {
  Rng rng(5);
  Tensor a = leaf(randn({3}, rng));
  Tensor loss = sum(a * a);
  Ready ready;
  BackwardOptions options = ready.options();
  options.retain_graph = true;
  backward(loss, options);
  backward(loss, options);
  CHECK(ready.calls(a) == 2);
  CHECK_THROWS_AS(backward(loss, {.on_ready = [](const Tensor&) { throw 7; }}), int);
  a.set_grad({});
  CHECK_NOTHROW(backward(sum(a * 3)));
  CHECK(a.grad().to_vector<float>() == std::vector<float>{3, 3, 3});
}

}  // namespace
}  // namespace tern::test_on_ready
