// Optimizers that a user defines as rules, against plain arithmetic; and steps inside backward,
// against steps after it.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_optim_rules {

namespace {

using test::contains, test::error_of, test::leaf;

using Doubles = std::vector<double>;

/// Chen et al. 2023, algorithm 2.
struct Lion {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  static constexpr const char* name = "Lion";
  static constexpr std::array state_names = {"exp_avg"};

  void validate() const { check(beta1 < 1, "Lion: beta1 is {}", beta1); }

  template <class T>
  void update(const optim::Piece<T>& p) const {
    const T rate = T(p.lr), decay = T(p.weight_decay), b1 = T(beta1), b2 = T(beta2);
    simd([=, w = p.parameter, g = p.gradient, m = p.state[0], n = p.count] {
      for (int64_t i = 0; i < n; ++i) {
        T c = b1 * m[i] + (1 - b1) * g[i];
        w[i] -= rate * (T(c > 0) - T(c < 0) + decay * w[i]);
        m[i] = b2 * m[i] + (1 - b2) * g[i];
      }
    });
  }
};

/// A rule without any optional member: no state, decay or name.
struct Signs {
  double lr = 0.5;
  template <class T>
  void update(const optim::Piece<T>& p) const {
    for (int64_t i = 0; i < p.count; ++i) p.parameter[i] -= T(p.lr) * (p.gradient[i] > 0 ? 1 : -1);
  }
};

/// Divides by the norm of the whole parameter's gradient, and counts steps in its state.
struct Normed {
  double lr = 1;
  bool counts = true;
  static constexpr bool whole_parameters = true;
  std::vector<const char*> state_names() const {
    return counts ? std::vector<const char*>{"count"} : std::vector<const char*>{};
  }
  template <class T>
  void update(const optim::Piece<T>& p) const {
    double sum = 0;
    for (int64_t i = 0; i < p.count; ++i) sum += double(p.gradient[i]) * double(p.gradient[i]);
    for (int64_t i = 0; i < p.count; ++i)
      p.parameter[i] -= T(p.lr * p.gradient[i] / std::sqrt(sum));
    if (counts) p.state[0][0] = T(p.step);
  }
};

struct Greedy : Normed {
  std::vector<const char*> state_names() const { return {"a", "b", "c", "d", "e"}; }
};

/// Lion in plain arithmetic on one number.
struct LionByHand {
  double w, m = 0;
  void step(double g, double lr, double decay) {
    double c = 0.9 * m + 0.1 * g, sign = c > 0 ? 1 : c < 0 ? -1 : 0;
    w -= lr * (sign + decay * w);
    m = 0.99 * m + 0.01 * g;
  }
};

template <class Kind>
Doubles trained(bool in_backward,
                const typename std::remove_cvref_t<decltype(std::declval<Kind>().rule())>& rule) {
  Rng rng(3);
  nn::Linear a(64, 300, rng), b(300, 8, rng), frozen(8, 8, rng);
  nn::set_requires_grad(frozen, false);
  NamedTensors p;
  for (auto& [name, t] : nn::named_parameters(a)) p.emplace_back("a." + name, t);
  for (auto& [name, t] : nn::named_parameters(b)) p.emplace_back("b." + name, t);
  Kind optimizer(optim::decay_groups(p, 0.1), rule);
  for (int step = 0; step < 4; ++step) {
    optimizer.set_lr_factor(1.0 / (1 + step));
    Tensor x = leaf(randn({16, 64}, rng));
    sum(square(frozen(b(tanh(a(x)))))).backward();
    if (in_backward) {
      auto ready = optimizer.step_in_backward();
      for (auto& [name, t] : p) ready(t);
      ready(x);  // not a parameter of this optimizer
      CHECK(x.grad().defined());
      for (auto& [name, t] : p) CHECK_FALSE(t.grad().defined());
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (auto& named : optimizer.state_dict()) p.push_back(named);
  return test::numbers_of(p);
}

}  // namespace

TEST_CASE("an optimizer of one's own: Lion equals its definition, in groups and with a schedule") {
  for (DType dtype : {DType::f64, DType::f32}) {
    const int64_t n = 40000;  // several pieces
    Tensor w = leaf(linspace(-1, 1, n, dtype)), b = leaf(full({1}, 0.5, dtype));
    std::vector<optim::ParameterGroup> groups = {{{{"w", w}}}, {{{"b", b}}, 0.02, 0.0}};
    optim::OptimizerOf<Lion> lion(groups, {.lr = 0.01, .weight_decay = 0.1});
    CHECK(lion.lr(0) == 0.01);
    CHECK(lion.lr(1) == 0.02);
    CHECK(lion.rule().beta2 == 0.99);
    Doubles start = w.to_vector<double>();
    LionByHand first{start[0]}, last{start[n - 1]}, bias{0.5};
    for (int step = 0; step < 5; ++step) {
      double factor = 1.0 / (1 + step), g = step % 2 ? -1 : 0.3;
      lion.set_lr_factor(factor);
      w.set_grad(full({n}, g, dtype));
      b.set_grad(full({1}, -g, dtype));
      lion.step();
      first.step(g, 0.01 * factor, 0.1);
      last.step(g, 0.01 * factor, 0.1);
      bias.step(-g, 0.02 * factor, 0);
    }
    // Five sums of numbers up to 1, each rounded to the type.
    double eps = dtype == DType::f64 ? 1e-15 : 1e-6;
    CHECK(w[0].item() == doctest::Approx(first.w).epsilon(eps));
    CHECK(w[n - 1].item() == doctest::Approx(last.w).epsilon(eps));
    CHECK(b.item() == doctest::Approx(bias.w).epsilon(eps));
  }
}

TEST_CASE("an optimizer of one's own continues from its state, bit for bit") {
  auto gradient = [](const Tensor& p, int step) {
    p.set_grad(sin(p.detach() * (step + 1.0) + 1.0));
  };
  Tensor w = leaf(linspace(-1, 1, 1000));
  optim::OptimizerOf<Lion> lion(std::vector<Tensor>{w}, {.lr = 0.01});
  for (int step = 0; step < 3; ++step) gradient(w, step), lion.step();
  const NamedTensors state = test::copies(lion.state_dict());
  REQUIRE(state.size() == 2);
  CHECK(state[0].first == "0.step");
  CHECK(state[1].first == "0.exp_avg");
  Tensor v = leaf(w.detach());
  optim::OptimizerOf<Lion> other(std::vector<Tensor>{v}, {.lr = 0.01});
  other.load_state_dict(state);
  for (int step = 3; step < 6; ++step) {
    gradient(w, step), lion.step();
    gradient(v, step), other.step();
  }
  CHECK(w.to_vector<float>() == v.to_vector<float>());
}

TEST_CASE("rules: optional members, whole parameters, and invalid rules") {
  Tensor w = leaf(zeros({4}));
  w.set_grad(tensor({1, -1, 2, -2}, {4}).to(DType::f32));
  optim::OptimizerOf<Signs>(std::vector<Tensor>{w}).step();
  CHECK(w.to_vector<float>() == std::vector<float>{-0.5f, 0.5f, -0.5f, 0.5f});

  const int64_t n = 100000;  // several pieces for other rules
  Tensor large = leaf(zeros({n}, DType::f64));
  large.set_grad(ones({n}, DType::f64));
  optim::OptimizerOf<Normed> normed(std::vector<Tensor>{large});
  normed.step();
  CHECK(large[0].item() == doctest::Approx(-1 / std::sqrt(double(n))).epsilon(1e-12));
  CHECK(large[n - 1].item() == large[0].item());
  CHECK(sum(normed.state_dict()[1].second).item() == 1);
  CHECK(optim::OptimizerOf<Normed>(std::vector<Tensor>{large}, {.counts = false})
            .state_dict()
            .empty());

  CHECK(error_of([&] { optim::OptimizerOf<Lion>(std::vector<Tensor>{w}, {.beta1 = 1}); }) ==
        "Lion: beta1 is 1");
  CHECK(contains(error_of([&] { optim::OptimizerOf<Lion>(std::vector<Tensor>{w}, {.lr = -1}); }),
                 "Lion: lr and weight decay must not be negative"));
  CHECK(contains(error_of([&] { optim::OptimizerOf<Greedy>(std::vector<Tensor>{w}); }),
                 "5 state names; at most 4 are allowed"));
  CHECK_FALSE(optim::Rule<int>);
}

TEST_CASE("optimizers take parameters without names") {
  Rng rng(1);
  nn::Linear layer(2, 3, rng);
  optim::AdamW optimizer(nn::parameters(layer), {.lr = 0.1});
  NamedTensors p = optimizer.parameters();
  REQUIRE(p.size() == 2);
  CHECK(p[0].first == "0");
  CHECK(p[1].first == "1");
}

TEST_CASE("optimizers: allocate_state() does not change the results") {
  auto run = [](bool beforehand) {
    Tensor w = leaf(linspace(-1, 1, 100));
    optim::AdamW optimizer(std::vector<Tensor>{w}, {.lr = 0.1});
    if (beforehand) optimizer.allocate_state();
    CHECK(optimizer.state_dict().empty());
    for (int step = 0; step < 3; ++step) {
      w.set_grad(sin(w.detach()));
      optimizer.step();
    }
    return w.to_vector<float>();
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("a step inside backward has the bits of a step after it") {
  CHECK(trained<optim::AdamW>(true, {.lr = 0.01}) == trained<optim::AdamW>(false, {.lr = 0.01}));
  CHECK(trained<optim::Sgd>(true, {.lr = 0.01, .momentum = 0.9}) ==
        trained<optim::Sgd>(false, {.lr = 0.01, .momentum = 0.9}));
  CHECK(trained<optim::OptimizerOf<Lion>>(true, {}) ==
        trained<optim::OptimizerOf<Lion>>(false, {}));
}

TEST_CASE("a step inside backward: functions that need all gradients are errors by name") {
  Tensor a = leaf(ones({3})), b = leaf(ones({3}));
  NamedTensors p = {{"a", a}, {"b", b}};
  optim::Sgd optimizer(p, {.lr = 1});
  auto ready = optimizer.step_in_backward();
  auto pass = [&] { sum(a * b).backward(); };
  pass();
  ready(a);  // b follows later
  CHECK(contains(error_of([&] { optim::clip_grad_norm(p, 1); }),
                 "clip_grad_norm: Sgd stepped 'a' inside backward"));
  CHECK(contains(error_of([&] { optim::clip_grad_value(p, 1); }), "clip_grad_value: Sgd stepped"));
  CHECK(contains(error_of([&] { optim::check_finite_gradients(p); }),
                 "check_finite_gradients: Sgd stepped 'a'"));
  ready(b);
  std::vector<float> before = a.to_vector<float>();
  pass();  // a second pass of the same step
  CHECK(contains(error_of([&] { ready(a); }), "cannot add the gradients of several passes"));
  CHECK(contains(error_of([&] { optimizer.step(); }), "'a' was stepped inside backward"));
  CHECK(a.to_vector<float>() == before);
  optimizer.zero_grad();
  pass();
  CHECK_NOTHROW(optim::clip_grad_norm(p, 1));
  CHECK_NOTHROW(ready(a));
  CHECK_NOTHROW(optimizer.step());  // steps b and ends the step
  pass();
  CHECK_NOTHROW(ready(a));
  CHECK_NOTHROW(ready(b));
  optimizer.step();

  // Ordinary passes may come before the one that steps: it uses the sum of all gradients.
  auto summed = [](bool in_backward) {
    Tensor w = leaf(linspace(-1, 1, 10));
    optim::AdamW adam(std::vector<Tensor>{w}, {.lr = 0.1});
    sum(square(w)).backward();
    sum(sin(w)).backward();
    if (in_backward) adam.step_in_backward()(w);
    adam.step();
    return w.to_vector<float>();
  };
  CHECK(summed(true) == summed(false));
}

}  // namespace tern::test_optim_rules
