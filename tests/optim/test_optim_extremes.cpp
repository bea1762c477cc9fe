// Every optimizer with its coefficients at 0 and 1 and gradients from 1e-30 to 1e30, against its
// definition on single numbers in f64, which also track the rounding error of the type.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/numbers_with_error.h"

namespace tern::test_optim_extremes {
using test::average;
using test::Number;
using test::root;

namespace {

using Doubles = std::vector<double>;

const Doubles kSizes = {1e-30, 1e-24, 1e-20, 1e-15, 1e-8, 1e-3, 1,    1e3,
                        1e8,   1e12,  1e15,  1e18,  1e19, 1e20, 1e25, 1e30};
constexpr size_t kSteps = 4;

/// Lists of the gradients of one number in four steps: a large one may come first, last or always.
std::vector<Doubles> gradient_lists() {
  std::vector<Doubles> lists;
  for (double g : kSizes) {
    lists.push_back({g, g, g, g});
    lists.push_back({g, -1, 0.5, -0.25});
    lists.push_back({-1, g, -g, 2});
    lists.push_back({-g, 1e-3, 3e-3, g});
  }
  return lists;
}

/// A number with all states that any of these optimizers keeps for it.
struct Kept {
  Number p = 0.5, m, v, a, b;  ///< b: the step, where the optimizer keeps it
  double product = 1;
};

template <class Rule, class ByHand>
void check_steps(const Rule& rule, double eps, DType type, ByHand by_hand) {
  type == DType::f32 ? Number::use_f32() : Number::use_f64();
  const std::vector<Doubles> lists = gradient_lists();
  const auto n = static_cast<int64_t>(lists.size());
  Tensor p = full({n}, 0.5, type).set_requires_grad();
  optim::OptimizerOf<Rule> optimizer(std::vector<Tensor>{p}, rule);
  std::vector<Kept> numbers(lists.size());
  std::vector<bool> infinite(lists.size());  // a square was infinite
  for (size_t t = 0; t < kSteps; ++t) {
    Doubles g;
    for (const Doubles& list : lists) g.push_back(list[t]);
    p.set_grad(tensor(g).to(type));
    optimizer.step();
    const Doubles got = p.to_vector<double>();
    for (size_t i = 0; i < lists.size(); ++i) {
      Kept& k = numbers[i];
      by_hand(k, Number(g[i]), static_cast<double>(t + 1));
      if (!(g[i] * g[i] <= Number::largest)) infinite[i] = true;
      CAPTURE(std::string(Rule::name));
      const std::string list =
          fmt::format("{} {} {} {}", lists[i][0], lists[i][1], lists[i][2], lists[i][3]);
      CAPTURE(list);
      CAPTURE(t);
      const double most = std::max(std::abs(k.p.value), std::abs(k.b.value));
      if (infinite[i])
        CHECK((std::isfinite(got[i]) || eps == 0 || !(most <= Number::largest)));
      else if (k.p.known())
        CHECK(std::abs(got[i] - k.p.value) <= k.p.error);
      if (!k.p.known() || infinite[i]) k.p = Number(got[i]);  // continue from the real value
    }
  }
}

template <class Rule, class ByHand>
void check_types(const Rule& rule, double eps, ByHand by_hand) {
  check_steps(rule, eps, DType::f32, by_hand);
  check_steps(rule, eps, DType::f64, by_hand);
}

/// The common part of Adam and its variants: weight decay and both moments. Returns the gradient.
template <class Rule>
Number moments(const Rule& r, Kept& k, Number g, bool decoupled) {
  if (decoupled)
    k.p = k.p * Number(1 - r.lr * r.weight_decay);
  else
    g = g + Number(r.weight_decay) * k.p;
  k.m = average(k.m, g, r.beta1);
  k.v = r.beta2 == 0 ? g * g : Number(r.beta2) * k.v + Number(1 - r.beta2) * g * g;
  return g;
}

/// Calls fn(rule) with each coefficient of the rule at 0 and, if that is allowed, at 1, and with
/// all pairs of betas.
template <class Rule>
void for_each_setting(Rule rule, const std::function<void(const Rule&)>& fn) {
  fn(rule);
  for (double beta1 : {0.0, 0.3, 0.9})
    for (double beta2 : {0.0, 0.4, 0.99}) {
      Rule r = rule;
      r.beta1 = beta1, r.beta2 = beta2;
      fn(r);
      r.weight_decay = 1;
      fn(r);
    }
  auto with = [&](auto set) {
    Rule r = rule;
    set(r);
    fn(r);
  };
  for (double end : {0.0, 1.0}) {
    with([=](Rule& r) { r.lr = end; });
    with([=](Rule& r) { r.weight_decay = end; });
    if constexpr (requires { rule.eps; }) with([=](Rule& r) { r.eps = end; });
    if constexpr (requires { rule.momentum_decay; }) with([=](Rule& r) { r.momentum_decay = end; });
  }
  for (double Rule::*beta : {&Rule::beta1, &Rule::beta2}) {
    Rule r = rule;
    r.*beta = 1;
    Tensor p = ones({1}).set_requires_grad();
    CHECK_THROWS_WITH_AS(optim::OptimizerOf<Rule>(std::vector<Tensor>{p}, r),
                         doctest::Contains("betas must lie in [0, 1)"), Error);
  }
}

template <class Rule>
void check_adam(bool decoupled) {
  for_each_setting<Rule>({}, [=](const Rule& r) {
    check_types(r, r.eps, [=](Kept& k, Number g, double t) {
      moments(r, k, g, decoupled);
      const Number root_of_v = root(k.v / Number(1 - std::pow(r.beta2, t)));
      k.p = k.p - Number(r.lr / (1 - std::pow(r.beta1, t))) * k.m / (root_of_v + Number(r.eps));
    });
  });
}

TEST_CASE("Adam and AdamW at the limits of their coefficients") {
  check_adam<optim::AdamOptions>(false);
  check_adam<optim::AdamWOptions>(true);
}

TEST_CASE("NAdam at the limits of its coefficients") {
  using Rule = optim::NAdamOptions;
  for (bool decoupled : {false, true})
    for_each_setting<Rule>({.decoupled_weight_decay = decoupled}, [=](const Rule& r) {
      check_types(r, r.eps, [=](Kept& k, Number g, double t) {
        auto momentum = [&](double s) {
          return r.beta1 * (1 - 0.5 * std::pow(0.96, s * r.momentum_decay));
        };
        g = moments(r, k, g, decoupled);
        k.product *= momentum(t);
        const double next = momentum(t + 1);
        const Number of_g = Number(r.lr * (1 - momentum(t)) / (1 - k.product));
        const Number of_m = Number(r.lr * next / (1 - k.product * next));
        const Number root_of_v = root(k.v / Number(1 - std::pow(r.beta2, t)));
        // The product is rounded to the type: 1 - product loses digits near 1.
        const double lost = 1 + 1 / (1 - k.product);
        Number step = (of_g * g + of_m * k.m) / (root_of_v + Number(r.eps));
        step.error *= lost;
        k.p = k.p - step;
      });
    });
}

TEST_CASE("RAdam at the limits of its coefficients") {
  using Rule = optim::RAdamOptions;
  for (bool decoupled : {false, true})
    for_each_setting<Rule>({.decoupled_weight_decay = decoupled}, [=](const Rule& r) {
      check_types(r, r.eps, [=](Kept& k, Number g, double t) {
        moments(r, k, g, decoupled);
        const double left = std::pow(r.beta2, t), rho = 2 / (1 - r.beta2) - 1;
        const double rho_t = rho - 2 * t * left / (1 - left);
        Number step = Number(r.lr / (1 - std::pow(r.beta1, t))) * k.m;
        if (rho_t > 5)
          step = step *
                 Number(std::sqrt((rho_t - 4) * (rho_t - 2) * rho * (1 - left) /
                                  ((rho - 4) * (rho - 2) * rho_t))) /
                 (root(k.v) + Number(r.eps));
        k.p = k.p - step;
      });
    });
}

TEST_CASE("Lion at the limits of its coefficients") {
  using Rule = optim::LionOptions;
  for_each_setting<Rule>({}, [](const Rule& r) {
    check_types(r, 1, [=](Kept& k, Number g, double) {
      const Number c = average(k.m, g, r.beta1);
      const double sign = c.value > 0 ? 1 : c.value < 0 ? -1 : 0;
      k.p = k.p * Number(1 - r.lr * r.weight_decay) - Number(r.lr * sign);
      if (std::abs(c.value) <= c.error) k.p.error += 2 * r.lr;  // the sign is unknown
      k.m = average(k.m, g, r.beta2);
    });
  });
}

TEST_CASE("Sgd at the limits of its coefficients") {
  for (double lr : {0.0, 1e-3, 1.0})
    for (double momentum : {0.0, 0.9, 1.0})
      for (double dampening : {0.0, 0.1, 1.0})
        for (double decay : {0.0, 1.0})
          for (bool nesterov : {false, true}) {
            const optim::SgdOptions r{lr, momentum, dampening, decay, nesterov};
            if (nesterov && (momentum == 0 || dampening != 0)) {
              Tensor p = ones({1}).set_requires_grad();
              CHECK_THROWS_AS(optim::Sgd(std::vector<Tensor>{p}, r), Error);
              continue;
            }
            check_types(r, 1, [=](Kept& k, Number g, double t) {
              g = g + Number(decay) * k.p;
              k.b =
                  momentum == 0 || t == 1 ? g : Number(momentum) * k.b + Number(1 - dampening) * g;
              k.p = k.p - Number(lr) * (nesterov ? g + Number(momentum) * k.b : k.b);
            });
          }
  Tensor p = ones({1}).set_requires_grad();
  CHECK_THROWS_WITH_AS(optim::Sgd(std::vector<Tensor>{p}, {.momentum = -1}),
                       doctest::Contains("must not be negative"), Error);
}

TEST_CASE("RmsProp at the limits of its coefficients") {
  for (double alpha : {0.0, 0.5, 0.99, 1.0})
    for (double eps : {0.0, 1e-8, 1.0})
      for (double decay : {0.0, 1.0})
        for (double momentum : {0.0, 0.9, 1.0})
          for (bool centered : {false, true}) {
            const optim::RmsPropOptions r{1e-2, alpha, eps, decay, momentum, centered};
            check_types(r, eps, [=](Kept& k, Number g, double) {
              g = g + Number(decay) * k.p;
              k.v = alpha == 0 ? g * g : Number(alpha) * k.v + Number(1 - alpha) * g * g;
              Number square = k.v;
              if (centered) {
                k.m = average(k.m, g, alpha);
                square = k.v - k.m * k.m;
              }
              k.b = (momentum == 0 ? Number() : Number(momentum) * k.b) +
                    g / (root(square) + Number(eps));
              k.p = k.p - Number(1e-2) * k.b;
            });
          }
  Tensor p = ones({1}).set_requires_grad();
  CHECK_THROWS_WITH_AS(optim::RmsProp(std::vector<Tensor>{p}, {.alpha = 1.5}),
                       doctest::Contains("alpha must lie in [0, 1]"), Error);
}

TEST_CASE("Adadelta at the limits of its coefficients") {
  for (double lr : {0.0, 1.0})
    for (double rho : {0.0, 0.9, 1.0})
      for (double eps : {1e-6, 1.0})
        for (double decay : {0.0, 1.0}) {
          const optim::AdadeltaOptions r{lr, rho, eps, decay};
          check_types(r, eps, [=](Kept& k, Number g, double) {
            g = g + Number(decay) * k.p;
            k.v = rho == 0 ? g * g : Number(rho) * k.v + Number(1 - rho) * g * g;
            const Number d = root(k.a + Number(eps)) / root(k.v + Number(eps)) * g;
            k.a = Number(rho) * k.a + Number(1 - rho) * d * d;
            k.p = k.p - Number(lr) * d;
          });
        }
  Tensor p = ones({1}).set_requires_grad();
  CHECK_THROWS_WITH_AS(optim::Adadelta(std::vector<Tensor>{p}, {.eps = 0}),
                       doctest::Contains("eps must be positive"), Error);
  CHECK_THROWS_WITH_AS(optim::Adadelta(std::vector<Tensor>{p}, {.rho = 1.5}),
                       doctest::Contains("rho must lie in [0, 1]"), Error);
}

}  // namespace

}  // namespace tern::test_optim_extremes
