// Every word of fused()'s formulas: values against a naive loop, first and second derivatives
// against central differences, in every layout (op_table.h), at every vector level.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/cpu.h"
#include "tern/core/ops/fused.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_fused_words {
namespace {

using test::op, test::Array, test::Arrays;
using Inputs = std::vector<Tensor>;

/// A formula to be checked against a function of one number, or of two.
template <class Formula>
struct Word {
  std::string name;
  Formula formula;
  double low = -2;

  Word from(double least) const { return {name, formula, least}; }
  void is(double (*naive)(double)) const {
    op(name, {{3, 5}}, [f = formula](const Inputs& x) { return fused("word", f, x[0]); })
        .between(low, 2)
        .equals([=](const Arrays& x) {
          Array y = x[0];
          for (double& v : y.v) v = naive(v);
          return y;
        });
  }
  void is(double (*naive)(double, double)) const {
    op(name, {{3, 5}, {3, 5}},
       [f = formula](const Inputs& x) { return fused("words", f, x[0], x[1]); })
        .between(low, 2)
        .equals([=](const Arrays& x) {
          Array y = x[0];
          for (int64_t i = 0; i < y.numel(); ++i) y[i] = naive(x[0][i], x[1][i]);
          return y;
        });
  }
};

template <class Formula>
Word<Formula> word(const std::string& name, Formula formula) {
  return {"fused " + name, formula};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_of(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST_CASE("op table: fused words, smooth") {
  word("exp", [](auto x) { return exp(x); }).is([](double x) { return std::exp(x); });
  word("expm1", [](auto x) { return expm1(x); }).is([](double x) { return std::expm1(x); });
  word("log", [](auto x) { return log(x); }).from(0.5).is([](double x) { return std::log(x); });
  word("log1p", [](auto x) { return log1p(x); }).from(-0.5).is([](double x) {
    return std::log1p(x);
  });
  word("sqrt", [](auto x) { return sqrt(x); }).from(0.5).is([](double x) { return std::sqrt(x); });
  word("rsqrt", [](auto x) { return rsqrt(x); }).from(0.5).is([](double x) {
    return 1 / std::sqrt(x);
  });
  word("square", [](auto x) { return square(x); }).is([](double x) { return x * x; });
  word("pow", [](auto x) { return pow(x, 2.5); }).from(0.5).is([](double x) {
    return std::pow(x, 2.5);
  });
  word("pow, integer", [](auto x) { return pow(x, -3); }).from(0.5).is([](double x) {
    return 1 / (x * x * x);
  });
  word("tanh", [](auto x) { return tanh(x); }).is([](double x) { return std::tanh(x); });
  word("sigmoid", [](auto x) { return sigmoid(x); }).is(sigmoid_of);
  word("silu", [](auto x) { return silu(x); }).is([](double x) { return x * sigmoid_of(x); });
  word("softplus", [](auto x) { return softplus(x); }).is([](double x) {
    return std::log1p(std::exp(x));
  });
  word("sin", [](auto x) { return sin(x); }).is([](double x) { return std::sin(x); });
  word("cos", [](auto x) { return cos(x); }).is([](double x) { return std::cos(x); });
  word("erf", [](auto x) { return erf(x); }).is([](double x) { return std::erf(x); });
  word("gelu", [](auto x) { return gelu(x); }).is(gelu_of);
  word("gelu_tanh", [](auto x) { return gelu_tanh(x); }).is(gelu_tanh_of);
}

TEST_CASE("op table: fused words, piecewise") {
  word("relu", [](auto x) { return relu(x); }).is([](double x) { return x > 0 ? x : 0; });
  word("abs", [](auto x) { return abs(x); }).is([](double x) { return std::abs(x); });
  word("clamp", [](auto x) { return clamp(x, -1, 0.5); }).is([](double x) {
    return std::min(std::max(x, -1.0), 0.5);
  });
  word("max with a number", [](auto x) { return max(0.5, x) * x; }).is([](double x) {
    return std::max(x, 0.5) * x;
  });
  word("min with a number", [](auto x) { return min(x, -0.25) * x; }).is([](double x) {
    return std::min(x, -0.25) * x;
  });
  word("conditions", [](auto x) {
    const auto inside = x > -1.1 && 1.3 >= x && !(x == 7);
    return where(inside || x != x, x * x * x, 2 - x) * where(x < 0, 3.0, 2.0);
  }).is([](double x) { return (x > -1.1 && 1.3 >= x ? x * x * x : 2 - x) * (x < 0 ? 3.0 : 2.0); });
  word("max", [](auto a, auto b) { return max(a, b) * a; }).is([](double a, double b) {
    return std::max(a, b) * a;
  });
  word("min", [](auto a, auto b) { return min(a, b) + a * b; }).is([](double a, double b) {
    return std::min(a, b) + a * b;
  });
  word("where", [](auto a, auto b) { return where(a <= b, a * a, b); }).is([](double a, double b) {
    return a <= b ? a * a : b;
  });
}

TEST_CASE("op table: fused words, arithmetic") {
  word("+ -", [](auto a, auto b) {
    return (a + b) * (a - b) - (1 - a) + (b + 2.5f);
  }).is([](double a, double b) { return (a + b) * (a - b) - (1 - a) + (b + 2.5); });
  word("* /", [](auto a, auto b) { return -a / b * 3 + 1 / (a * b) + +b / 4; })
      .from(0.5)
      .is([](double a, double b) { return -a / b * 3 + 1 / (a * b) + b / 4; });
  word("a name used twice", [](auto a, auto b) {
    const auto s = sigmoid(a * b);
    return s * (1 - s) + s * a;
  }).is([](double a, double b) {
    const double s = sigmoid_of(a * b);
    return s * (1 - s) + s * a;
  });
}

// Checks that a formula and the op of ops.h agree in value and slope, also at kinks, infinities and
// NaN.
template <class Formula>
void same_as(const std::string& name, Tensor (*op)(const Tensor&), Formula formula) {
  using test::kInf;
  for (DType type : {DType::f32, DType::f64})
    for (int level = 0; level <= static_cast<int>(detail::cpu().level); ++level) {
      VectorLevelScope scope{static_cast<VectorLevel>(level)};
      INFO(name, ", ", fmt::format("{}", type), ", level ", level);
      Tensor x = tensor({0, -0.0, 1, -1, 0.5, -0.5, 30, -30, 800, -800, kInf, -kInf, std::nan("")},
                        {13}, type);
      x.set_requires_grad();
      Tensor y = fused("edge", formula, x), z = op(x);
      const auto got = y.to_vector<double>(), want = z.to_vector<double>();
      const auto dgot = grad({y}, {x}, {.gradients = {ones({13}, type)}})[0].to_vector<double>();
      const auto dwant = grad({z}, {x}, {.gradients = {ones({13}, type)}})[0].to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("element ", i);
        CHECK((got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])) ||
               got[i] == doctest::Approx(want[i]).epsilon(1e-6)));
        CHECK((dgot[i] == dwant[i] || (std::isnan(dgot[i]) && std::isnan(dwant[i])) ||
               dgot[i] == doctest::Approx(dwant[i]).epsilon(1e-6)));
      }
    }
}

TEST_CASE("fused words agree with the ops at kinks, infinities and NaN") {
  same_as("relu", relu, [](auto x) { return relu(x); });
  same_as("abs", abs, [](auto x) { return abs(x); });
  same_as("silu", silu, [](auto x) { return silu(x); });
  same_as("sigmoid", sigmoid, [](auto x) { return sigmoid(x); });
  same_as("tanh", tanh, [](auto x) { return tanh(x); });
  same_as("softplus", softplus, [](auto x) { return softplus(x); });
  same_as(
      "gelu", [](const Tensor& x) { return gelu(x); }, [](auto x) { return gelu(x); });
  same_as("erf", erf, [](auto x) { return erf(x); });
  same_as("exp", exp, [](auto x) { return exp(x); });
  same_as("log", log, [](auto x) { return log(x); });
  same_as("sqrt", sqrt, [](auto x) { return sqrt(x); });
  same_as(
      "clamp", [](const Tensor& x) { return clamp(x, -1, 0.5); },
      [](auto x) { return clamp(x, -1, 0.5); });
  same_as(
      "max", [](const Tensor& x) { return maximum(x, 0.5); }, [](auto x) { return max(x, 0.5); });
  same_as(
      "min", [](const Tensor& x) { return minimum(x, 0.5); }, [](auto x) { return min(0.5, x); });
  same_as(
      "pow, 0", [](const Tensor& x) { return pow(x, 0); }, [](auto x) { return pow(x, 0); });
  same_as(
      "pow, 3", [](const Tensor& x) { return pow(x, 3.0); }, [](auto x) { return pow(x, 3.0); });
}

// Where a sigmoid rounds to 0 or 1, its derivatives keep all their digits, as those of the ops do.
template <class Formula>
void same_second(const std::string& name, Formula formula, Tensor (*op)(const Tensor&)) {
  INFO(name);
  Tensor x = tensor({40, 25, 18, -18, -25, -40}, {6}).set_requires_grad();
  auto second = [&](const Tensor& y) {
    const Tensor first = grad({sum(y)}, {x}, {.create_graph = true})[0];
    return grad({sum(first)}, {x})[0].to_vector<double>();
  };
  const auto got = second(fused("far", formula, x)), want = second(op(x));
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element ", i);
    CHECK(want[i] != 0);
    CHECK(std::abs(got[i] - want[i]) <= 1e-5 * std::abs(want[i]));  // tens of roundings in f32
  }
}

TEST_CASE("fused words: second derivatives far from 0 agree with the ops") {
  same_second(
      "silu", [](auto x) { return silu(x); }, silu);
  same_second(
      "softplus", [](auto x) { return softplus(x); }, softplus);
}

}  // namespace
}  // namespace tern::test_fused_words
