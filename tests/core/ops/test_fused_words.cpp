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

using test::Array, test::OpRow;
using Arrays = std::vector<Array>;
using Inputs = std::vector<Tensor>;

template <class Formula>
OpRow row(const std::string& name, Formula formula, double (*naive)(double), double low = -2,
          double high = 2) {
  return {.name = "fused " + name,
          .shapes = {{3, 5}},
          .fn = [=](const Inputs& x) { return fused("word", formula, x[0]); },
          .naive =
              [=](const Arrays& x) {
                Array y = x[0];
                for (double& v : y.v) v = naive(v);
                return y;
              },
          .low = low,
          .high = high};
}

template <class Formula>
OpRow row2(const std::string& name, Formula formula, double (*naive)(double, double),
           double low = -2) {
  return {.name = "fused " + name,
          .shapes = {{3, 5}, {3, 5}},
          .fn = [=](const Inputs& x) { return fused("words", formula, x[0], x[1]); },
          .naive =
              [=](const Arrays& x) {
                Array y = x[0];
                for (int64_t i = 0; i < y.numel(); ++i) y[i] = naive(x[0][i], x[1][i]);
                return y;
              },
          .low = low};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_of(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

TEST_CASE("op table: fused words, smooth") {
  test::run_rows({
      row(
          "exp", [](auto x) { return exp(x); }, [](double x) { return std::exp(x); }),
      row(
          "expm1", [](auto x) { return expm1(x); }, [](double x) { return std::expm1(x); }),
      row(
          "log", [](auto x) { return log(x); }, [](double x) { return std::log(x); }, 0.5),
      row(
          "log1p", [](auto x) { return log1p(x); }, [](double x) { return std::log1p(x); }, -0.5),
      row(
          "sqrt", [](auto x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, 0.5),
      row(
          "rsqrt", [](auto x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 0.5),
      row(
          "square", [](auto x) { return square(x); }, [](double x) { return x * x; }),
      row(
          "pow", [](auto x) { return pow(x, 2.5); }, [](double x) { return std::pow(x, 2.5); },
          0.5),
      row(
          "pow, integer", [](auto x) { return pow(x, -3); },
          [](double x) { return 1 / (x * x * x); }, 0.5),
      row(
          "tanh", [](auto x) { return tanh(x); }, [](double x) { return std::tanh(x); }),
      row(
          "sigmoid", [](auto x) { return sigmoid(x); }, sigmoid_of),
      row(
          "silu", [](auto x) { return silu(x); }, [](double x) { return x * sigmoid_of(x); }),
      row(
          "softplus", [](auto x) { return softplus(x); },
          [](double x) { return std::log1p(std::exp(x)); }),
      row(
          "sin", [](auto x) { return sin(x); }, [](double x) { return std::sin(x); }),
      row(
          "cos", [](auto x) { return cos(x); }, [](double x) { return std::cos(x); }),
      row(
          "erf", [](auto x) { return erf(x); }, [](double x) { return std::erf(x); }),
      row(
          "gelu", [](auto x) { return gelu(x); }, gelu_of),
      row(
          "gelu_tanh", [](auto x) { return gelu_tanh(x); }, gelu_tanh_of),
  });
}

TEST_CASE("op table: fused words, piecewise") {
  test::run_rows({
      row(
          "relu", [](auto x) { return relu(x); }, [](double x) { return x > 0 ? x : 0; }),
      row(
          "abs", [](auto x) { return abs(x); }, [](double x) { return std::abs(x); }),
      row(
          "clamp", [](auto x) { return clamp(x, -1, 0.5); },
          [](double x) { return std::min(std::max(x, -1.0), 0.5); }),
      row(
          "max with a number", [](auto x) { return max(0.5, x) * x; },
          [](double x) { return std::max(x, 0.5) * x; }),
      row(
          "min with a number", [](auto x) { return min(x, -0.25) * x; },
          [](double x) { return std::min(x, -0.25) * x; }),
      row(
          "conditions",
          [](auto x) {
            const auto inside = x > -1.1 && 1.3 >= x && !(x == 7);
            return where(inside || x != x, x * x * x, 2 - x) * where(x < 0, 3.0, 2.0);
          },
          [](double x) {
            return (x > -1.1 && 1.3 >= x ? x * x * x : 2 - x) * (x < 0 ? 3.0 : 2.0);
          }),
      row2(
          "max", [](auto a, auto b) { return max(a, b) * a; },
          [](double a, double b) { return std::max(a, b) * a; }),
      row2(
          "min", [](auto a, auto b) { return min(a, b) + a * b; },
          [](double a, double b) { return std::min(a, b) + a * b; }),
      row2(
          "where", [](auto a, auto b) { return where(a <= b, a * a, b); },
          [](double a, double b) { return a <= b ? a * a : b; }),
  });
}

TEST_CASE("op table: fused words, arithmetic") {
  test::run_rows({
      row2(
          "+ -", [](auto a, auto b) { return (a + b) * (a - b) - (1 - a) + (b + 2.5f); },
          [](double a, double b) { return (a + b) * (a - b) - (1 - a) + (b + 2.5); }),
      row2(
          "* /", [](auto a, auto b) { return -a / b * 3 + 1 / (a * b) + +b / 4; },
          [](double a, double b) { return -a / b * 3 + 1 / (a * b) + b / 4; }, 0.5),
      row2(
          "a name used twice",
          [](auto a, auto b) {
            const auto s = sigmoid(a * b);
            return s * (1 - s) + s * a;
          },
          [](double a, double b) {
            const double s = sigmoid_of(a * b);
            return s * (1 - s) + s * a;
          }),
  });
}

// Checks that a formula and the op of ops.h agree in value and slope, also at kinks, infinities and
// NaN.
template <class Formula>
void same_as(const std::string& name, Formula formula, Tensor (*op)(const Tensor&)) {
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
  same_as(
      "relu", [](auto x) { return relu(x); }, relu);
  same_as(
      "abs", [](auto x) { return abs(x); }, abs);
  same_as(
      "silu", [](auto x) { return silu(x); }, silu);
  same_as(
      "sigmoid", [](auto x) { return sigmoid(x); }, sigmoid);
  same_as(
      "tanh", [](auto x) { return tanh(x); }, tanh);
  same_as(
      "softplus", [](auto x) { return softplus(x); }, softplus);
  same_as(
      "gelu", [](auto x) { return gelu(x); }, [](const Tensor& x) { return gelu(x); });
  same_as(
      "erf", [](auto x) { return erf(x); }, erf);
  same_as(
      "exp", [](auto x) { return exp(x); }, exp);
  same_as(
      "log", [](auto x) { return log(x); }, log);
  same_as(
      "sqrt", [](auto x) { return sqrt(x); }, sqrt);
  same_as(
      "clamp", [](auto x) { return clamp(x, -1, 0.5); },
      [](const Tensor& x) { return clamp(x, -1, 0.5); });
  same_as(
      "max", [](auto x) { return max(x, 0.5); }, [](const Tensor& x) { return maximum(x, 0.5); });
  same_as(
      "min", [](auto x) { return min(0.5, x); }, [](const Tensor& x) { return minimum(x, 0.5); });
  same_as(
      "pow, 0", [](auto x) { return pow(x, 0); }, [](const Tensor& x) { return pow(x, 0); });
  same_as(
      "pow, 3", [](auto x) { return pow(x, 3.0); }, [](const Tensor& x) { return pow(x, 3.0); });
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
