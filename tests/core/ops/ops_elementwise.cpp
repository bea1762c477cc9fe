// The op table's rows of arithmetic, activations, masks and comparisons, against the C library.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_elementwise {
namespace {

using test::Array, test::Arrays, test::for_each_index, test::OpRow;
using Tensors = std::vector<Tensor>;

std::function<Array(const Arrays&)> each(double (*f)(double)) {
  return [f](const Arrays& x) {
    Array y(x[0].shape);
    for (int64_t i = 0; i < y.numel(); ++i) y[i] = f(x[0][i]);
    return y;
  };
}

std::function<Array(const Arrays&)> each(double (*f)(double, double)) {
  return [f](const Arrays& x) {
    Array y(broadcast_shapes("naive", x[0].shape, x[1].shape));
    for_each_index(y.shape,
                   [&](const Dims& i) { y.at(i) = f(x[0].broadcast_at(i), x[1].broadcast_at(i)); });
    return y;
  };
}

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using WithScalar = Tensor (*)(const Tensor&, Scalar);
using ScalarWith = Tensor (*)(Scalar, const Tensor&);

OpRow row(const char* name, Unary op, double (*naive)(double), double low = -2, double high = 2) {
  return {name, {{3, 4}}, [op](const Tensors& x) { return op(x[0]); }, each(naive), low, high};
}

OpRow row(const char* name, Binary op, double (*naive)(double, double), double low = -2,
          double high = 2) {
  auto fn = [op](const Tensors& x) { return op(x[0], x[1]); };
  return {name, {{3, 4}, {3, 4}}, fn, each(naive), low, high};
}

// The row, and the same op with shapes that broadcast in either direction.
std::vector<OpRow> broadcast(OpRow r) {
  OpRow vector = r, outer = r, scalar = r;
  vector.shapes = {{3, 2, 4}, {4}};
  outer.shapes = {{3, 1}, {3, 1, 4}};
  scalar.shapes = {{}, {3, 4}};
  return {r, vector, outer, scalar};
}

void run_broadcast(const std::vector<OpRow>& rows) {
  for (const OpRow& r : rows) test::run_rows(broadcast(r));
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double floor_quotient(double a, double b) { return std::floor(a / b); }

TEST_CASE("op table: elementwise arithmetic") {
  run_broadcast({
      row("add", Binary(add), [](double a, double b) { return a + b; }),
      row("sub", Binary(sub), [](double a, double b) { return a - b; }),
      row("mul", Binary(mul), [](double a, double b) { return a * b; }),
      row(
          "div", Binary(div), [](double a, double b) { return a / b; }, 0.5, 2),
      row(
          "pow", Binary(pow), [](double a, double b) { return std::pow(a, b); }, 0.3, 2),
      row("minimum", Binary(minimum), [](double a, double b) { return std::min(a, b); }),
      row("maximum", Binary(maximum), [](double a, double b) { return std::max(a, b); }),
      row("floor_divide", Binary(floor_divide), floor_quotient, 0.31, 5),
      row(
          "remainder", Binary(remainder),
          [](double a, double b) { return a - b * std::floor(a / b); }, 0.31, 5),
  });
}

TEST_CASE("op table: elementwise with numbers") {
  auto with = [](const char* name, WithScalar op, Scalar s, double (*naive)(double),
                 double low = -2) {
    auto fn = [=](const Tensors& x) { return op(x[0], s); };
    return OpRow{name, {{3, 4}}, fn, each(naive), low, 2};
  };
  auto from = [](const char* name, ScalarWith op, Scalar s, double (*naive)(double)) {
    auto fn = [=](const Tensors& x) { return op(s, x[0]); };
    return OpRow{name, {{3, 4}}, fn, each(naive), 0.3, 2};
  };
  test::run_rows({
      with("add", add, 1.5, [](double x) { return x + 1.5; }),
      with("sub", sub, 1.5, [](double x) { return x - 1.5; }),
      with("mul", mul, 3, [](double x) { return x * 3; }),
      with("div", div, 3, [](double x) { return x / 3; }),
      with("pow 0", pow, 0, [](double) { return 1.0; }),
      with("pow 1", pow, 1, [](double x) { return x; }),
      with("pow 2", pow, 2, [](double x) { return x * x; }),
      with("pow 3", pow, 3, [](double x) { return x * x * x; }),
      with(
          "pow -1", pow, -1, [](double x) { return 1 / x; }, 0.4),
      with(
          "pow 0.5", pow, 0.5, [](double x) { return std::sqrt(x); }, 0.4),
      with(
          "pow -0.5", pow, -0.5, [](double x) { return 1 / std::sqrt(x); }, 0.4),
      with(
          "pow 2.3", pow, 2.3, [](double x) { return std::pow(x, 2.3); }, 0.4),
      with("minimum", minimum, 0.1, [](double x) { return std::min(x, 0.1); }),
      with("maximum", maximum, 0.1, [](double x) { return std::max(x, 0.1); }),
      with("floor_divide", floor_divide, 0.41, [](double x) { return std::floor(x / 0.41); }),
      with("remainder", remainder, 0.41, [](double x) { return x - 0.41 * std::floor(x / 0.41); }),
      from("sub", sub, 2, [](double x) { return 2 - x; }),
      from("div", div, 2, [](double x) { return 2 / x; }),
      from("pow", pow, 2, [](double x) { return std::exp2(x); }),
  });
}

TEST_CASE("op table: functions of one tensor") {
  test::run_rows({
      row("neg", neg, [](double x) { return -x; }),
      row("exp", exp, std::exp),
      row("log", log, std::log, 0.2, 3),
      row("log1p", log1p, std::log1p, -0.6, 3),
      row("expm1", expm1, std::expm1),
      row("sqrt", sqrt, std::sqrt, 0.3, 3),
      row(
          "rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.3, 3),
      row("square", square, [](double x) { return x * x; }),
      row(
          "reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.4, 3),
      row("abs", abs, [](double x) { return std::abs(x); }),
      row("sign", sign, [](double x) { return x > 0 ? 1.0 : -1.0; }),
      row("sin", sin, std::sin),
      row("cos", cos, std::cos),
      row("tanh", tanh, std::tanh),
      row("sigmoid", sigmoid, sigmoid_of),
      row("erf", erf, std::erf),
      row("floor", floor, std::floor),
      row("ceil", ceil, std::ceil),
      row("round", round, std::nearbyint, -5, 5.2),
  });
}

TEST_CASE("op table: activations") {
  auto gelu_tanh = [](const Tensor& x) { return gelu(x, Gelu::tanh); };
  test::run_rows({
      row("relu", relu, [](double x) { return x > 0 ? x : 0; }),
      row(
          "gelu", [](const Tensor& x) { return gelu(x); },
          [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, -4, 4),
      row(
          "gelu tanh", gelu_tanh,
          [](double x) {
            double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
            return 0.5 * x * (1 + std::tanh(u));
          },
          -4, 4),
      row("silu", silu, [](double x) { return x * sigmoid_of(x); }),
      row("softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }),
      row(
          "leaky_relu", [](const Tensor& x) { return leaky_relu(x); },
          [](double x) { return x > 0 ? x : 0.01 * x; }),
      row(
          "elu", [](const Tensor& x) { return elu(x, 1.5); },
          [](double x) { return x > 0 ? x : 1.5 * (std::exp(x) - 1); }),
      row(
          "clamp", [](const Tensor& x) { return clamp(x, -0.7, 1.1); },
          [](double x) { return std::clamp(x, -0.7, 1.1); }),
      row(
          "clamp low", [](const Tensor& x) { return clamp(x, 0.25, {}); },
          [](double x) { return std::max(x, 0.25); }),
      row(
          "clamp high", [](const Tensor& x) { return clamp(x, {}, 0.25); },
          [](double x) { return std::min(x, 0.25); }),
  });
}

// A mask that is 1 where (row + 2 col) % 3 is not 0.
Tensor stripes(const Shape& shape) {
  int64_t cols = shape.back();
  std::vector<uint8_t> m(static_cast<size_t>(numel(shape)));
  for (size_t i = 0; i < m.size(); ++i)
    m[i] = (static_cast<int64_t>(i) / cols + 2 * (static_cast<int64_t>(i) % cols)) % 3 != 0;
  return tensor(m, shape);
}

bool striped(const Dims& index) {
  return (index[index.size() - 2] + 2 * index[index.size() - 1]) % 3 != 0;
}

OpRow triangle(const char* name, Tensor (*op)(const Tensor&, int64_t), int64_t diagonal,
               bool lower) {
  auto naive = [=](const Arrays& x) {
    Array y(x[0].shape);
    for_each_index(y.shape, [&](const Dims& i) {
      int64_t d = i[2] - i[1];
      y.at(i) = (lower ? d <= diagonal : d >= diagonal) ? x[0].at(i) : 0;
    });
    return y;
  };
  return {name, {{2, 4, 3}}, [=](const Tensors& x) { return op(x[0], diagonal); }, naive};
}

TEST_CASE("op table: choice by a mask") {
  auto choose = [](const Arrays& x) {
    Array y(broadcast_shapes("naive", {4}, x[0].shape));
    for_each_index(y.shape, [&](const Dims& i) {
      y.at(i) = striped(i) ? x[0].broadcast_at(i) : x[1].broadcast_at(i);
    });
    return y;
  };
  auto fill = [](const Arrays& x) {
    Array y(x[0].shape);
    for_each_index(y.shape, [&](const Dims& i) { y.at(i) = striped(i) ? -9 : x[0].at(i); });
    return y;
  };
  auto fn = [](const Tensors& x) { return where(stripes({x[0].size(0), 4}), x[0], x[1]); };
  auto filled = [](const Tensors& x) { return masked_fill(x[0], stripes(x[0].shape()), -9); };
  test::run_rows({
      {"where", {{3, 4}, {3, 4}}, fn, choose},
      {"where, broadcast", {{3, 1}, {4}}, fn, choose},
      {"masked_fill", {{3, 4}}, filled, fill},
      triangle("tril", tril, 0, true),
      triangle("tril 1", tril, 1, true),
      triangle("tril -2", tril, -2, true),
      triangle("triu", triu, 0, false),
      triangle("triu 2", triu, 2, false),
      triangle("triu -9", triu, -9, false),
  });
}

TEST_CASE("op table: comparison and logic") {
  std::vector<OpRow> rows = {
      row("eq", Binary(eq), [](double a, double b) { return double(a == b); }),
      row("ne", Binary(ne), [](double a, double b) { return double(a != b); }),
      row("lt", Binary(lt), [](double a, double b) { return double(a < b); }),
      row("le", Binary(le), [](double a, double b) { return double(a <= b); }),
      row("gt", Binary(gt), [](double a, double b) { return double(a > b); }),
      row("ge", Binary(ge), [](double a, double b) { return double(a >= b); }),
      row(
          "logical_and",
          [](const Tensor& a, const Tensor& b) { return logical_and(gt(a, 0), gt(b, 1)); },
          [](double a, double b) { return double((a > 0) && (b > 1)); }),
      row(
          "logical_or",
          [](const Tensor& a, const Tensor& b) { return logical_or(gt(a, 0), gt(b, 1)); },
          [](double a, double b) { return double((a > 0) || (b > 1)); }),
      row(
          "logical_xor",
          [](const Tensor& a, const Tensor& b) { return logical_xor(gt(a, 0), gt(b, 1)); },
          [](double a, double b) { return double((a > 0) != (b > 1)); }),
      row(
          "logical_not", [](const Tensor& x) { return logical_not(gt(x, 0)); },
          [](double x) { return double(!(x > 0)); }),
      row("isnan", isnan, [](double) { return 0.0; }),
      row("isfinite", isfinite, [](double) { return 1.0; }),
  };
  for (OpRow& r : rows) r.gradient = false;
  test::run_rows(rows);
}

}  // namespace
}  // namespace tern::ops_elementwise
