// Second derivatives of functions made from a sigmoid, against formulas in double: they keep their
// digits where the sigmoid rounds to 1.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::test_second_derivatives {

namespace {

using Doubles = std::vector<double>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// A second derivative, the sum of the absolute values of its terms, and the number whose
/// exponential it contains: the rounding of that number counts in proportion to its size.
struct Expected {
  double value, terms, exponent = 0;
};

struct Row {
  const char* name;
  Tensor (*fn)(const Tensor& x);
  Expected (*second)(double x);
};

Expected bump(double x) {
  const double y = sigmoid_of(x) * sigmoid_of(-x);
  return {y, y, x};
}

// s + x u' s r with s = sigmoid(u), r = 1 - s: 2 u' s r + x u'' s r + x u'^2 s r (r - s).
Expected second_of_gelu(double x) {
  const double linear = 2 * std::sqrt(2 / std::acos(-1.0)), cubic = 0.044715 * linear;
  const double u = x * (linear + cubic * x * x), slope = linear + 3 * cubic * x * x;
  const double s = sigmoid_of(u), r = sigmoid_of(-u), p = s * r;
  const double a = 2 * slope * p, b = 6 * cubic * x * x * p, c = x * slope * slope * p * (r - s);
  return {a + b + c, std::abs(a) + std::abs(b) + std::abs(c), u};
}

Expected second_of_silu(double x) {
  const double p = sigmoid_of(x) * sigmoid_of(-x), c = x * p * (sigmoid_of(-x) - sigmoid_of(x));
  return {2 * p + c, 2 * p + std::abs(c)};
}

Expected second_of_glu(double x) {
  const double y = 1.5 * sigmoid_of(x) * sigmoid_of(-x);
  return {y * (sigmoid_of(-x) - sigmoid_of(x)), 2 * y};
}

// x t with t = (1 - r^2) / (1 + r^2): 2 t' + x t'', t' = 4 r^2 s / (1 + r^2)^2.
Expected second_of_mish(double x) {
  const double s = sigmoid_of(x), r = sigmoid_of(-x), sum = 1 + r * r;
  const double slope = 4 * r * r * s / (sum * sum), a = 2 * slope, b = x * slope * r;
  const double c = -2 * x * slope * s * (1 + r) * s / sum;
  return {a + b + c, a + std::abs(b) + std::abs(c)};
}

const std::vector<Row> kRows = {
    {"gelu_tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); }, second_of_gelu},
    {"silu", silu, second_of_silu},
    {"mish", mish, second_of_mish},
    {"softplus", softplus, bump},
    {"bce_with_logits, target 0",
     [](const Tensor& x) {
       return bce_with_logits(x, zeros_like(x), {.reduction = Reduction::none});
     },
     bump},
    {"bce_with_logits, target 1",
     [](const Tensor& x) {
       return bce_with_logits(x, ones_like(x), {.reduction = Reduction::none});
     },
     bump},
    {"log_sigmoid", log_sigmoid,
     [](double x) {
       return Expected{-bump(x).value, bump(x).terms};
     }},
    {"logaddexp, a", [](const Tensor& x) { return logaddexp(x, full({}, 0.5, x.dtype())); },
     [](double x) { return bump(x - 0.5); }},
    {"logaddexp, b", [](const Tensor& x) { return logaddexp(full({}, 0.5, x.dtype()), x); },
     [](double x) { return bump(x - 0.5); }},
    {"glu",
     [](const Tensor& x) {
       return glu(stack({x.detach() * 0 + 1.5, x}, 0), 0);
     },
     second_of_glu},
};

/// The second derivatives of sum(fn(x)) by every element of x.
Doubles second(const Tensor& x, const std::function<Tensor(const Tensor&)>& fn) {
  const Tensor leaf = x.clone().set_requires_grad();
  const Tensor first = grad({sum(fn(leaf))}, {leaf}, {.create_graph = true})[0];
  return grad({sum(first)}, {leaf})[0].to_vector<double>();
}

TEST_CASE("second derivatives of sigmoids keep their digits") {
  for (DType type : {DType::f32, DType::f64}) {
    const double rounding = type == DType::f32 ? 0x1p-24 : 0x1p-53;
    const Tensor x = linspace(-30, 30, 4001).to(type);
    const Doubles at = x.to_vector<double>();
    for (const Row& row : kRows) {
      const Doubles got = second(x, row.fn);
      for (size_t i = 0; i < at.size(); ++i) {
        CAPTURE(std::string(row.name));
        CAPTURE(at[i]);
        const Expected want = row.second(at[i]);
        // About 30 roundings. Denormal numbers have fewer digits.
        const double tolerance = 32 * rounding * want.terms * (1 + std::abs(want.exponent));
        CHECK(std::abs(got[i] - want.value) <= tolerance + 1e-37);
      }
    }
  }
}

TEST_CASE("bce_with_logits keeps the digits of losses and gradients that are close to 0") {
  const Tensor logits = linspace(-80, 80, 4001).to(DType::f32);
  const Doubles at = logits.to_vector<double>();
  for (double target : {0.0, 1.0})
    for (double weight : {1.0, 3.0}) {  // the weight of positive targets
      Tensor x = logits.clone().set_requires_grad();
      const Tensor losses = bce_with_logits(
          x, full_like(logits, target),
          {.pos_weight = full({}, weight, DType::f32), .reduction = Reduction::none});
      const Doubles got = losses.to_vector<double>();
      const Doubles slope = grad({sum(losses)}, {x})[0].to_vector<double>();
      for (size_t i = 0; i < at.size(); ++i) {
        CAPTURE(at[i]);
        const double away = target == 0 ? at[i] : -at[i], factor = target == 0 ? 1 : weight;
        const double loss = factor * (std::max(away, 0.0) + std::log1p(std::exp(-std::abs(away))));
        const double want = factor * (target == 0 ? 1 : -1) * sigmoid_of(away);
        CHECK(std::abs(got[i] - loss) <= 8 * 0x1p-24 * loss);
        CHECK(std::abs(slope[i] - want) <= 8 * 0x1p-24 * std::abs(want));
      }
    }
}

TEST_CASE("second derivatives by an expanded operand are sums") {
  const int64_t n = 1000;
  const Tensor x = linspace(4, 20, n);
  const Doubles at = x.to_vector<double>();
  auto check_sum = [&](const Tensor& start, auto fn, auto term) {
    const double got = second(start, [&](const Tensor& a) { return fn(expand(a, {n})); })[0];
    double want = 0;
    for (double v : at) want += term(v);
    // All terms have one sign, and the term of 4 is by far the largest: 20 roundings and those of
    // a sum.
    CHECK(std::abs(got - want) <= 64 * 0x1p-24 * std::abs(want) * 5);
  };
  check_sum(
      full({1}, 24.0), [&](const Tensor& a) { return logaddexp(a, x); },
      [](double v) { return bump(24 - v).value; });
  check_sum(
      full({1}, -16.0), [&](const Tensor& a) { return log_sigmoid(a - x * 0.125); },
      [](double v) { return -bump(-16 - v * 0.125).value; });
  check_sum(
      full({1}, 10.0), [&](const Tensor& a) { return softplus(a + x * 0.125); },
      [](double v) { return bump(10 + v * 0.125).value; });
}

TEST_CASE("second derivatives of powers of integers and to integers, in f64") {
  const Tensor x = tensor({1.5, 2, -1}, {3}, DType::f64), i = tensor({2, 3, 4}, {3}, DType::i64);
  const Doubles of_base = second(x, [&](const Tensor& a) { return pow(a, i); });
  const Doubles of_exponent = second(x, [&](const Tensor& b) { return pow(i, b); });
  for (size_t k = 0; k < 3; ++k) {
    const double n = static_cast<double>(k + 2), v = x.to_vector<double>()[k];
    CHECK(of_base[k] == doctest::Approx(n * (n - 1) * std::pow(v, n - 2)).epsilon(1e-14));
    CHECK(of_exponent[k] ==
          doctest::Approx(std::pow(n, v) * std::log(n) * std::log(n)).epsilon(1e-14));
  }
}

TEST_CASE("third derivatives at 0, where two formulas for the sigmoid meet") {
  auto third = [](const std::function<Tensor(const Tensor&)>& fn) {
    const Tensor x = zeros({1}, DType::f64).set_requires_grad();
    Tensor d = fn(x);
    for (int i = 0; i < 2; ++i) d = grad({sum(d)}, {x}, {.create_graph = true})[0];
    return grad({sum(d)}, {x})[0].item();
  };
  // The third derivative of softplus, s (1 - s) (1 - 2 s), is 0 at 0; its derivative is -1/8.
  CHECK(std::abs(third([](const Tensor& x) { return softplus(x); })) <= 1e-16);
  CHECK(third([](const Tensor& x) { return x * softplus(x); }) == doctest::Approx(0.75));
  auto fourth_of_softplus = [&] {
    const Tensor x = zeros({1}, DType::f64).set_requires_grad();
    Tensor d = softplus(x);
    for (int i = 0; i < 3; ++i) d = grad({sum(d)}, {x}, {.create_graph = true})[0];
    return grad({sum(d)}, {x})[0].item();
  };
  CHECK(fourth_of_softplus() == doctest::Approx(-0.125));
}

}  // namespace

}  // namespace tern::test_second_derivatives
