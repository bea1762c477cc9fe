// Groups, saved states, clipping, averaging and check_training_graph(). The numbers of optimizers:
// test_more_optim.cpp.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_optim {

namespace {

using test::leaf;

// A parameter of several pieces of the parallel pass, with a different gradient for each element.
NamedTensors large(int64_t n) {
  Tensor p = leaf(linspace(-1, 1, n));
  p.set_grad(linspace(3, -2, n));
  return {{"p", p}};
}

}  // namespace

TEST_CASE("optimizers: a state that does not fit changes nothing") {
  NamedTensors p = {{"w", leaf(ones({3, 5}))}, {"b", leaf(ones({5}))}, {"rare", leaf(ones({2}))}};
  optim::AdamW optimizer(p);
  CHECK(optimizer.state_dict().empty());
  p[0].second.set_grad(ones({3, 5})), p[1].second.set_grad(ones({5}));  // none for `rare`
  optimizer.step();
  NamedTensors state = optimizer.state_dict();
  CHECK(state.size() == 6);
  CHECK(state[0].first == "w.step");
  CHECK(state[1].first == "w.exp_avg");
  CHECK(state[2].first == "w.exp_avg_sq");
  CHECK(state[0].second.item<int64_t>() == 1);
  NamedTensors missing(state.begin(), state.end() - 1), unexpected = state, negative = state;
  unexpected.emplace_back("other.step", scalar(1, DType::i64));
  negative[0].second = scalar(-1, DType::i64);
  CHECK_THROWS_AS(optimizer.load_state_dict(missing), Error);
  CHECK_THROWS_AS(optimizer.load_state_dict(unexpected), Error);
  CHECK_THROWS_AS(optimizer.load_state_dict(negative), Error);
  CHECK(optimizer.state_dict()[0].second.item<int64_t>() == 1);
}

TEST_CASE("optimizers: groups, factors of the learning rate, and invalid arguments") {
  Tensor w = leaf(ones({2, 2})), b = leaf(ones({2}));
  NamedTensors p = {{"w", w}, {"b", b}};
  optim::Sgd decayed(optim::decay_groups(p, 0.5), {.lr = 1, .weight_decay = 9});
  CHECK(decayed.num_groups() == 2);
  CHECK(decayed.weight_decay(0) == 0.5);
  CHECK(decayed.weight_decay(1) == 0);
  decayed.set_lr_factor(0.1);
  CHECK(decayed.lr() == doctest::Approx(0.1));
  w.set_grad(zeros({2, 2}));
  b.set_grad(zeros({2}));
  decayed.step();  // w -= 0.1 * 0.5 * w
  CHECK(w.to_vector<float>() == std::vector<float>(4, 0.95f));
  CHECK(b.to_vector<float>() == std::vector<float>(2, 1.0f));
  decayed.zero_grad();
  CHECK_FALSE(w.grad().defined());

  CHECK_THROWS_WITH_AS(optim::Sgd(NamedTensors{{"w", w}, {"v", w}}),
                       "Sgd: 'w' and 'v' are the same parameter", Error);
  CHECK_THROWS_AS(optim::Sgd(NamedTensors{{"w", w}, {"w", b}}), Error);
  CHECK_THROWS_AS(optim::Sgd(NamedTensors{{"w", w * 2}}), Error);
  CHECK_THROWS_AS(optim::Sgd(p, {.lr = -1}), Error);
  CHECK_THROWS_AS(optim::Sgd(p, {.nesterov = true}), Error);
  CHECK_THROWS_AS(optim::AdamW(p, {.beta1 = 1}), Error);
}

TEST_CASE("optimizers: a transposed gradient, an empty parameter, an old graph") {
  Tensor w = leaf(zeros({2, 3})), none = leaf(zeros({0, 3}));
  w.set_grad(transpose(tensor({1, 2, 3, 4, 5, 6}, {3, 2}), 0, 1));
  none.set_grad(zeros({0, 3}));
  optim::Sgd optimizer(NamedTensors{{"w", w}, {"none", none}}, {.lr = 1});
  Tensor loss = sum(square(w));
  optimizer.step();
  CHECK(w.to_vector<float>() == std::vector<float>{-1, -3, -5, -2, -4, -6});
  // The step overwrote the input that square() had saved: backward on the old graph is an error.
  CHECK_THROWS_AS(loss.backward(), Error);
}

TEST_CASE("optimizers, clipping and averaging give the same bits on any number of threads") {
  test::check_threads({3}, [] {
    NamedTensors p = large(100003);
    optim::Ema ema(p, {.decay = 0.9});
    const double norm = optim::clip_grad_norm(p, 1);
    optim::AdamW(p, {.lr = 0.1}).step();
    ema.update();
    std::vector<double> out = test::numbers_of({p[0].second, ema.averages()[0].second});
    out.push_back(static_cast<float>(norm));
    return out;
  });
}

TEST_CASE("clip_grad_norm scales all gradients together and returns the norm before") {
  Tensor a = leaf(zeros({2})), b = leaf(zeros({1})), c = leaf(zeros({4}));
  NamedTensors p = {{"a", a}, {"b", b}, {"c", c}};
  auto reset = [&] {
    a.set_grad(tensor({3, 4}, {2}));
    b.set_grad(tensor({12}, {1}));
  };
  reset();
  CHECK(optim::clip_grad_norm(p, 100) == doctest::Approx(13));
  CHECK(b.grad().item() == 12);
  CHECK(optim::clip_grad_norm(p, 6.5) == doctest::Approx(13));
  CHECK(b.grad().item() == doctest::Approx(12 * 6.5 / (13 + 1e-6)));
  reset();
  CHECK(optim::clip_grad_norm(p, 6, {.p = test::kInf}) == 12);
  CHECK(b.grad().item() == doctest::Approx(6));
  CHECK(a.grad().to_vector<double>()[0] == doctest::Approx(1.5));
  CHECK_FALSE(c.grad().defined());
  reset();
  optim::clip_grad_value(p, 3.5);
  CHECK(a.grad().to_vector<double>() == std::vector<double>{3, 3.5});
  CHECK(b.grad().item() == 3.5);

  b.set_grad(tensor({std::nan("")}, {1}));
  CHECK_THROWS_WITH_AS(optim::clip_grad_norm(p, 1),
                       doctest::Contains("the gradient of 'b' is not finite"), Error);
  CHECK_THROWS_AS(optim::clip_grad_norm(p, 1, {.p = test::kInf}), Error);
  CHECK(std::isnan(optim::clip_grad_norm(p, 1, {.error_if_nonfinite = false})));
  CHECK(optim::clip_grad_norm({{"c", c}}, 1) == 0);
  const std::vector<Tensor> unnamed = {a, b, c};
  reset();
  b.set_grad(tensor({std::nan("")}, {1}));
  CHECK_THROWS_WITH_AS(optim::clip_grad_norm(unnamed, 1), doctest::Contains("'1' is not finite"),
                       Error);
  b.set_grad(tensor({12}, {1}));
  optim::clip_grad_value(unnamed, 2);
  CHECK(b.grad().item() == 2);
  CHECK_THROWS_AS(optim::clip_grad_norm(p, 1, {.p = 3}), Error);
}

TEST_CASE("a parameter that two models share: clipped once, and refused by Ema") {
  Tensor shared = leaf(zeros({2})), own = leaf(zeros({1}));
  const NamedTensors twice = {{"a.embed", shared}, {"own", own}, {"b.embed", shared}};
  const auto reset = [&] {
    shared.set_grad(tensor({3, 4}, {2}));
    own.set_grad(tensor({12}, {1}));
  };
  reset();
  CHECK(optim::clip_grad_norm(twice, 6.5) == doctest::Approx(13));
  CHECK(shared.grad().to_vector<double>()[1] == doctest::Approx(2));
  reset();
  CHECK(optim::clip_grad_norm(std::vector<Tensor>{shared, own, shared}, 6.5) ==
        doctest::Approx(13));
  CHECK(shared.grad().to_vector<double>()[1] == doctest::Approx(2));
  CHECK(test::error_of([&] {
          optim::Ema ema(twice);
        }).starts_with("Ema: 'a.embed' and 'b.embed' are the same tensor"));
  CHECK_NOTHROW(optim::Ema(NamedTensors{{"a", zeros({0})}, {"b", zeros({0})}}));
}

TEST_CASE("grad_squares: one sum per parameter, which depends only on its gradient") {
  NamedTensors p = {{"a", leaf(zeros({2, 3}))},
                    {"none", leaf(zeros({4}))},
                    {"turned", leaf(zeros({3, 2}))},
                    {"empty", leaf(zeros({0}))},
                    {"f64", leaf(zeros({2}, DType::f64))}};
  p[0].second.set_grad(full({2, 3}, 2.0));
  p[2].second.set_grad(transpose(tensor({1.0, 2.0, 3.0, 0.0, 0.0, -1.0}, {2, 3}), 0, 1));
  p[3].second.set_grad(zeros({0}));
  p[4].second.set_grad(full({2}, 1e200, DType::f64));
  CHECK(optim::grad_squares(p) == std::vector<double>{24, 0, 15, 0, test::kInf});
  CHECK(optim::grad_squares({p[2]}) == std::vector<double>{15});
  CHECK(optim::grad_squares({}).empty());
  CHECK(p[0].second.grad().to_vector<float>() == std::vector<float>(6, 2));
}

TEST_CASE("Ema averages, swaps in and out, and continues from its state") {
  Tensor w = leaf(full({3}, 1)), n = scalar(1, DType::i64);
  NamedTensors weights = {{"w", w}, {"n", n}};
  optim::Ema ema(weights, {.decay = 0.75});
  {
    NoGradGuard no_grad;
    fill_(w, 5);
    fill_(n, 8);
  }
  ema.update();  // 0.75 * 1 + 0.25 * 5
  CHECK(ema.averages()[0].second.to_vector<float>() == std::vector<float>(3, 2.0f));
  CHECK(ema.averages()[1].second.item<int64_t>() == 8);
  ema.swap();
  CHECK(w.to_vector<float>() == std::vector<float>(3, 2.0f));
  CHECK(ema.averages()[0].second.to_vector<float>() == std::vector<float>(3, 2.0f));
  CHECK_THROWS_AS(ema.update(), Error);
  ema.swap();
  CHECK(w.to_vector<float>() == std::vector<float>(3, 5.0f));

  optim::Ema other(weights, {.decay = 0.75});
  other.load_state_dict(ema.state_dict());
  ema.update();
  other.update();
  CHECK(other.averages()[0].second.to_vector<float>() == std::vector<float>(3, 2.75f));
  CHECK(ema.averages()[0].second.to_vector<float>() == std::vector<float>(3, 2.75f));
  CHECK(w.requires_grad());

  optim::Ema warm(weights, {.decay = 0.99, .warmup = true});
  {
    NoGradGuard no_grad;
    fill_(w, 16);
  }
  warm.update();  // decay 2/11: 5 * 2/11 + 16 * 9/11
  CHECK(warm.averages()[0].second.to_vector<float>()[0] == doctest::Approx(14));
}

TEST_CASE("check_training_graph names the parameters that differ") {
  Tensor a = leaf(ones({2})), b = leaf(ones({3})), c = leaf(ones({4}));
  NamedTensors both = {{"a", a}, {"b", b}};
  optim::Sgd sgd(both), sgd_a(NamedTensors{{"a", a}});
  Tensor loss = sum(a) + sum(b);
  optim::check_training_graph(loss, both, sgd);
  loss.backward();
  optim::check_training_graph(loss, both, sgd);
  const std::string way_out =
      ". If this is intended, freeze what is not trained, or leave this check out "
      "(LearnerOptions::check_graph)";
  CHECK(test::error_of([&] { optim::check_training_graph(sum(a), both, sgd); }) ==
        "training graph: the loss does not depend on: b" + way_out);
  CHECK(test::error_of([&] { optim::check_training_graph(loss + sum(c), both, sgd); }) ==
        "training graph: the loss depends on leaves that are not parameters of the model: a leaf "
        "of shape (4,)" +
            way_out);
  CHECK(test::error_of([&] { optim::check_training_graph(loss, both, sgd_a); }) ==
        "training graph: the optimizer lacks: b" + way_out);
  CHECK(test::error_of([&] {
          optim::check_training_graph(sum(a), {{"a", a}}, sgd);
        }) == "training graph: only the optimizer has: b" + way_out);
  b.set_requires_grad(false);  // the loss need not depend on a frozen parameter
  optim::check_training_graph(sum(a) + sum(b), both, sgd_a);
}

}  // namespace tern::test_optim
