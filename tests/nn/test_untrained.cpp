// Mistakes that leave a model untrained are errors: layers called by copy, optimizers of nothing.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/train/learner.h"

namespace tern::test_untrained {

namespace {

using test::contains, test::error_of;

/// Calls its layers by copy (the mistake) or by reference.
struct Stack {
  std::vector<nn::Linear> layers;
  nn::Linear head;
  bool copies = true;
  explicit Stack(Rng& rng) : layers(3, nn::Linear(4, 4, rng)), head(4, 2, rng) {}
  Tensor operator()(Tensor x) const {
    if (copies)
      for (auto layer : layers) x = tanh(layer(x));  // NOLINT: the mistake
    else
      for (const auto& layer : layers) x = tanh(layer(x));
    return head(x);
  }
  static void fields(auto& m, auto&& visit) {
    visit("layers", m.layers);
    visit("head", m.head);
  }
};

TEST_CASE("untrained: a loop that calls layers by copy") {
  Rng rng(1);
  Stack model(rng);
  const Tensor x = randn({5, 4}, rng);
  optim::Sgd optimizer(nn::named_parameters(model), {.lr = 0.1});
  sum(square(model(x))).backward();
  const auto before = model.head.weight.tensor().to_vector<float>();
  std::string text = error_of([&] { optimizer.step(); });
  CHECK(contains(text,
                 "that gave 'head.weight' its gradient also reached a parameter of shape (4, 4)"));
  CHECK(contains(text, "it is a copy of 'layers.2.weight'"));
  CHECK(contains(text, "auto& layer"));
  CHECK(model.head.weight.tensor().to_vector<float>() == before);

  // Also for steps inside the backward pass, which reach only the head.
  optimizer.zero_grad();
  text = error_of([&] {
    backward(sum(square(model(x))), {.on_ready = optimizer.step_in_backward()});
    optimizer.step();
  });
  CHECK(contains(text, "it is a copy of 'layers."));

  optimizer.zero_grad();
  model.copies = false;
  sum(square(model(x))).backward();
  CHECK(error_of([&] { optimizer.step(); }) == "");

  // Copies of frozen layers are frozen: no error.
  optimizer.zero_grad();
  model.copies = true;
  nn::set_requires_grad(model.layers, false);
  sum(square(model(x))).backward();
  CHECK(error_of([&] { optimizer.step(); }) == "");
}

TEST_CASE("untrained: Learner and check_module find layers called by copy") {
  Rng rng(1);
  Stack model(rng);
  const Tensor x = randn({5, 4}, rng);
  optim::Sgd optimizer(nn::named_parameters(model));
  training::Learner learner(model, optimizer);
  std::string text = error_of([&] { learner.backward(sum(square(model(x)))); });
  CHECK(contains(text, "the loss does not depend on: layers.0.weight"));
  CHECK(contains(text, "a leaf of shape (4, 4), a copy of 'layers.0.weight'"));
  text = error_of([&] { nn::check_module(model, {x}); });
  CHECK(contains(text, ", a copy of 'layers."));
  model.copies = false;
  CHECK(error_of([&] { learner.backward(sum(square(model(x)))); }) == "");
  CHECK(error_of([&] { nn::check_module(model, {x}); }) == "");
}

TEST_CASE("untrained: a copy of the whole model, in a function or a lambda") {
  Rng rng(1);
  nn::Linear model(4, 2, rng);
  const Tensor x = randn({5, 4}, rng);
  optim::AdamW optimizer(nn::named_parameters(model));
  const std::function<Tensor(const Tensor&)> net = model;
  const auto lambda = [=](const Tensor& in) { return model(in); };
  for (int way = 0; way < 2; ++way) {
    sum(way ? net(x) : lambda(x)).backward();
    const std::string text = error_of([&] { optimizer.step(); });
    CHECK(contains(text, "AdamW: none of the 2 parameters has a gradient"));
    CHECK(contains(text, "[=]"));
  }
  CHECK(error_of([&] { optimizer.step({.allow_no_gradients = true}); }) == "");
  CHECK(optimizer.state_dict().empty());

  // A reference trains the model. Steps inside the backward pass count as gradients.
  const std::function<Tensor(const Tensor&)> itself = std::ref(model);
  sum(itself(x)).backward();
  CHECK(error_of([&] { optimizer.step(); }) == "");
  optimizer.zero_grad();
  backward(sum(model(x)), {.on_ready = optimizer.step_in_backward()});
  CHECK(error_of([&] { optimizer.step(); }) == "");
  CHECK(contains(error_of([&] { optimizer.step(); }), "none of the 2 parameters"));
  // One parameter with a gradient is enough.
  sum(model.bias.tensor() * 2).backward();
  CHECK(error_of([&] { optimizer.step(); }) == "");
  // All parameters frozen.
  nn::set_requires_grad(model, false);
  CHECK(contains(error_of([&] { optimizer.step(); }), "none of the 2 parameters"));
}

TEST_CASE("untrained: an optimizer without parameters, or of tensors without gradients") {
  Rng rng(1);
  CHECK(error_of([] { optim::Sgd{NamedTensors{}}; }) == "Sgd: there are no parameters to optimize");
  CHECK(contains(error_of([] { optim::AdamW{std::vector<optim::AdamW::Group>{}}; }),
                 "no parameters"));
  CHECK(contains(error_of([] { optim::Adam{optim::decay_groups({}, 0.1)}; }), "no parameters"));
  nn::BatchNorm2d norm(3);
  CHECK(contains(error_of([&] { optim::Sgd{nn::named_buffers(norm)}; }), "running_mean"));
  const Tensor plain = randn({2, 3}, rng);
  const std::string text = error_of([&] { optim::Adam{NamedTensors{{"w", plain}}}; });
  CHECK(contains(text, "Adam: 'w' of shape (2, 3) has never required a gradient"));
  CHECK(contains(text, "set_requires_grad()"));

  // No error: an empty group beside a full one, frozen parameters, and copies of frozen ones.
  nn::Linear layer(3, 3, rng, nn::Bias::no);
  CHECK(error_of([&] { optim::Sgd{optim::decay_groups(nn::named_parameters(layer), 1)}; }) == "");
  nn::set_requires_grad(layer, false);
  const nn::Linear copy = layer;
  CHECK_FALSE(copy.weight.tensor().requires_grad());
  CHECK(error_of([&] { optim::Sgd{nn::named_parameters(layer)}; }) == "");
  CHECK(error_of([&] { optim::Sgd{nn::named_parameters(copy)}; }) == "");
  nn::to(layer, DType::f64);
  CHECK_FALSE(layer.weight.tensor().requires_grad());
  CHECK(error_of([&] { optim::Sgd{nn::named_parameters(layer)}; }) == "");
}

}  // namespace

}  // namespace tern::test_untrained
