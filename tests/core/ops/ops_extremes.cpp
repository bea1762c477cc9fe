// Functions of one tensor at the ends of their ranges: integer inputs with fractional results,
// bounds that are absent or NaN, norms of every degree at zeros, f32 numbers whose squares
// overflow. The expected numbers are PyTorch 2.15's or follow from the definition.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/normalisation/residual.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/tensors.h"

namespace tern::ops_extremes {
namespace {

using Doubles = std::vector<double>;
using Unary = std::function<Tensor(const Tensor&)>;
using test::close, test::kInf, test::kNan;

Tensor of(const Doubles& v, DType type = DType::f64) { return tensor(v, Shape(v.size())).to(type); }

Doubles gradient(const Unary& fn, const Doubles& at, DType type = DType::f64) {
  Tensor x = of(at, type);
  x.set_requires_grad();
  Tensor y = fn(x);
  return grad({y}, {x}, {.gradients = {ones_like(y)}})[0].to_vector<double>();
}

// The second derivative: the gradient of the sum of the gradient.
Doubles second(const Unary& fn, const Doubles& at) {
  Tensor x = of(at);
  x.set_requires_grad();
  Tensor first = grad({sum(fn(x))}, {x}, {.create_graph = true})[0];
  return grad({sum(first)}, {x})[0].to_vector<double>();
}

struct Named {
  const char* name;
  Unary fn;
};

TEST_CASE("integers: functions with fractional results give f32, also for empty tensors") {
  const std::vector<Named> functions = {
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"log", [](const Tensor& x) { return log(x); }},
      {"log1p", [](const Tensor& x) { return log1p(x); }},
      {"expm1", [](const Tensor& x) { return expm1(x); }},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }},
      {"rsqrt", [](const Tensor& x) { return rsqrt(x); }},
      {"reciprocal", [](const Tensor& x) { return reciprocal(x); }},
      {"sin", [](const Tensor& x) { return sin(x); }},
      {"cos", [](const Tensor& x) { return cos(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"div", [](const Tensor& x) { return x / x; }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, 0); }},
      {"logsumexp, kept", [](const Tensor& x) { return logsumexp(x, 0, true); }},
  };
  for (DType type : {DType::u8, DType::i64})
    for (const Doubles& values : {Doubles{5, 7, 100}, Doubles{0, 1, 255}, Doubles{}})
      for (const Named& f : functions) {
        CAPTURE(fmt::format("{} {} {}", name(type), f.name, values.size()));
        Tensor x = of(values, type), y = f.fn(x), want = f.fn(x.to(DType::f32));
        CHECK(y.dtype() == DType::f32);
        CHECK(y.shape() == want.shape());
        CHECK(close(y.to_vector<double>(), want.to_vector<double>(), 0));
      }
  CHECK(logsumexp(of({5, 7, 100}, DType::u8), 0).item() == 100);
  CHECK(logsumexp(of({}, DType::u8), 0).item() == -kInf);
}

TEST_CASE("integers: ops that PyTorch refuses for integers throw an error with their name") {
  const std::vector<Named> functions = {
      {"mean", [](const Tensor& x) { return mean(x); }},
      {"var", [](const Tensor& x) { return var(x); }},
      {"std", [](const Tensor& x) { return std(x); }},
      {"norm", [](const Tensor& x) { return norm(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, x.shape()); }},
  };
  for (DType type : {DType::u8, DType::i64})
    for (const Doubles& values : {Doubles{5, 7, 100}, Doubles{}})
      for (const Named& f : functions) {
        CAPTURE(fmt::format("{} {}", name(type), f.name));
        CHECK_THROWS_WITH_AS(f.fn(of(values, type)),
                             doctest::Contains((std::string(f.name) + ": ").c_str()), Error);
      }
}

TEST_CASE("clamp: absent bounds and NaN as a bound") {
  const Doubles x = {-kInf, -1, 0, 0.5, 1, 2, kInf, kNan};
  struct Row {
    std::optional<Scalar> low, high;
    Doubles y, dx;
  };
  const Doubles nan(8, kNan), zero(8, 0);
  const std::vector<Row> rows = {
      {{}, 1, {-kInf, -1, 0, 0.5, 1, 1, 1, kNan}, {1, 1, 1, 1, 0, 0, 0, 0}},
      {0, {}, {0, 0, 0, 0.5, 1, 2, kInf, kNan}, {0, 0, 0, 1, 1, 1, 1, 0}},
      {0, 1, {0, 0, 0, 0.5, 1, 1, 1, kNan}, {0, 0, 0, 1, 0, 0, 0, 0}},
      {1, 0, {0, 0, 0, 0, 0, 0, 0, kNan}, zero},
      {-kInf, kInf, x, {0, 1, 1, 1, 1, 1, 0, 0}},
      {kNan, {}, nan, zero},
      {{}, kNan, nan, zero},
      {kNan, 1, nan, zero},
      {0, kNan, nan, zero},
  };
  for (DType type : {DType::f32, DType::f64})
    for (size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(fmt::format("{} {}", i, name(type)));
      const Row& row = rows[i];
      auto fn = [&](const Tensor& t) { return clamp(t, row.low, row.high); };
      CHECK(close(fn(of(x, type)).to_vector<double>(), row.y, 0));
      CHECK(close(gradient(fn, x, type), row.dx, 0));
    }
  Tensor i = of({1, 2}, DType::i64);
  CHECK(clamp(i, kNan, {}).dtype() == DType::f32);
  CHECK(second([](const Tensor& t) { return square(clamp(t, {}, 1)); }, {-2, 3}) == Doubles{2, 0});
}

TEST_CASE("norm: gradients of every degree, with some or only zeros among the elements") {
  struct Row {
    double p;
    Doubles x, dx;
  };
  // The gradients are PyTorch 2.15's, which are 0 at zeros.
  const std::vector<Row> rows = {
      {0.5, {1, 2, 0}, {2.414213562373095, 1.7071067811865472, 0}},
      {1, {1, -2, 0}, {1, -1, 0}},
      {1.5, {1, 2, 0}, {0.6392340078652324, 0.9040134034531213, 0}},
      {2, {1, 2, 0}, {0.4472135954999579, 0.8944271909999159, 0}},
      {3, {1, 2, 0}, {0.2311204247835449, 0.9244816991341795, 0}},
      {kInf, {1, 2, 0}, {0, 1, 0}},
      {kInf, {2, 2, -2}, {1 / 3., 1 / 3., -1 / 3.}},
      {-kInf, {1, -2, 3}, {1, 0, 0}},
      {-kInf, {1, 2, 0}, {0, 0, 0}},
      {-1, {1, -2, 3}, {0.29752066115702486, -0.07438016528925621, 0.03305785123966943}},
      {-2, {1, -2, 3}, {0.629737609329446, -0.07871720116618075, 0.02332361516034985}},
      {-0.5, {1, -2, 3}, {0.08387856807657171, -0.029655552141580662, 0.016142437952749677}},
      {-1, {1, 2, 0}, {0, 0, 0}},
      {-2, {1, 2, 0}, {0, 0, 0}},
      {-0.5, {1, 2, 0}, {0, 0, 0}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.p);
    auto fn = [&](const Tensor& x) { return norm(x, row.p); };
    CHECK(close(gradient(fn, row.x), row.dx, 1e-14));
    CHECK(close(gradient(fn, row.x, DType::f32), row.dx, 1e-6));
  }
  for (double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf, -kInf, -1.0, -2.0, -0.5}) {
    CAPTURE(p);
    auto fn = [&](const Tensor& x) { return norm(x, p); };
    CHECK(gradient(fn, {0, 0, 0}) == Doubles(3, 0));
    // A zero beside numbers whose powers overflow or underflow.
    for (double size : {1e-25, 1e-12, 1e12, 1e25})
      for (double v : gradient(fn, {size, 0, -size}, DType::f32)) CHECK(std::isfinite(v));
    if (p == 0) continue;  // its gradient is always 0
    CHECK(second(fn, {0, 0, 0}) == Doubles(3, 0));
    for (double v : second(fn, {1, 2, 0})) CHECK(std::isfinite(v));
  }
  CHECK(close(second([](const Tensor& x) { return norm(x, 2); }, {1, 2, 0}),
              {0.1788854381999832, -0.08944271909999152, 0.4472135954999579}, 1e-14));
  CHECK(close(second([](const Tensor& x) { return norm(x, -1); }, {1, -2, 3}),
              {-0.31555221637866265, -0.14425244177310298, 0.00901577761081894}, 1e-13));
}

TEST_CASE("f32: squares do not overflow or underflow if the result does not") {
  const float unit = 1.2247448f;  // (1, 2, 3) normalised
  for (double scale : {0x1p66, 0x1p99, 0x1p-83, 1.0}) {
    CAPTURE(scale);
    const Doubles v = {scale, 2 * scale, 3 * scale};
    Tensor x = of(v, DType::f32);
    CHECK(close({std(x).item()}, {scale}, 3e-7));
    CHECK(close({norm(x).item()}, {std::sqrt(14.) * scale}, 3e-7));
    CHECK(close({norm(x, 3).item()}, {std::cbrt(36.) * scale}, 3e-7));
    CHECK(close({mean(x).item()}, {2 * scale}, 3e-7));
    const double root = std::sqrt(14.);
    CHECK(close(gradient([](const Tensor& t) { return std(t); }, v, DType::f32), {-0.5, 0, 0.5},
                3e-7));
    CHECK(close(gradient([](const Tensor& t) { return norm(t); }, v, DType::f32),
                {1 / root, 2 / root, 3 / root}, 3e-7));
    if (scale < 1) continue;  // smaller numbers need eps
    CHECK(close(layer_norm(x, 3, {}, {}, 0).to_vector<double>(), {-unit, 0, unit}, 3e-7));
    const double rms = std::sqrt(14. / 3);
    CHECK(close(rms_norm(x, 3, {}, 0).to_vector<double>(), {1 / rms, 2 / rms, 3 / rms}, 3e-7));
    CHECK(close(group_norm(reshape(x, {1, 1, 3}), 1, {}, {}, 0).to_vector<double>(),
                {-unit, 0, unit}, 3e-7));
  }
  CHECK(close({std(of({1e20, 2e20, 3e20}, DType::f32)).item()}, {1e20}, 3e-7));
  CHECK(std::isinf(var(of({1e20, 2e20, 3e20}, DType::f32)).item()));
  CHECK(var(of({1e-30, 2e-30, 3e-30}, DType::f32)).item() == 0);
  Tensor large = of({2e38, 2e38, -2e38}, DType::f32);
  CHECK(close({mean(large).item()}, {2e38 / 3}, 3e-7));
  CHECK(close(layer_norm(large, 3).to_vector<double>(),
              {std::sqrt(0.5), std::sqrt(0.5), -std::sqrt(2.)}, 3e-7));
  CHECK(close({std(of({-3e38, 3e38, 0, 0, 0, 0}, DType::f32)).item()}, {1.8973667e38}, 3e-7));
  CHECK(logsumexp(of({3e38, 3e38}, DType::f32), 0).item<float>() == 3e38f);
  CHECK(softmax(of({1e38, 3e38, -3e38}, DType::f32), 0).to_vector<double>() == Doubles{0, 1, 0});
}

TEST_CASE("layer norms: a large mean costs only its rounding; equal elements give 0") {
  Rng rng(5);
  const int64_t n = 3000;
  const auto all_norms = [&](const Tensor& x) {
    const Tensor rows = reshape(x, {2, n}), zero = zeros_like(rows);
    return std::vector<Tensor>{
        layer_norm(rows, n), reshape(group_norm(reshape(x, {2, 4, n / 4}), 1), {2, n}),
        add_layer_norm(zero, rows, n, {}, {}), sum_and_layer_norm(zero, rows, n, {}, {}).norm,
        composed::layer_norm(rows, n, {}, {}, 1e-5)};
  };
  for (DType type : {DType::f32, DType::f64}) {
    const double digits = type == DType::f32 ? 0x1p-23 : 0x1p-52;
    for (double base : {1e2, 1e4, 1e6, 3e6}) {
      CAPTURE(base);
      const Tensor x = uniform({2, n}, base, base + 1, rng, type);
      const auto v = x.to_vector<double>();
      for (const Tensor& y : all_norms(x)) {
        const auto got = y.to_vector<double>();
        for (size_t row = 0; row < 2; ++row) {
          const double* p = v.data() + row * n;
          long double m = 0, squares = 0;
          for (int64_t i = 0; i < n; ++i) m += p[i];
          m /= n;
          for (int64_t i = 0; i < n; ++i) squares += (p[i] - m) * (p[i] - m);
          const double deviation = std::sqrt(static_cast<double>(squares) / n + 1e-5);
          // Half a unit in the last place of the mean, and the roundings of the result.
          const double bound = base * digits / deviation + 16 * digits;
          double worst = 0;
          for (int64_t i = 0; i < n; ++i)
            worst = std::max(worst, std::abs(got[row * n + static_cast<size_t>(i)] -
                                             static_cast<double>(p[i] - m) / deviation));
          CHECK(worst <= bound);
        }
      }
    }
    for (double value : {0.1, 1234.0, 1e10, -1e30}) {
      CAPTURE(value);
      for (const Tensor& y : all_norms(full({2, n}, value, type))) CHECK(max(abs(y)).item() == 0);
    }
  }
}

TEST_CASE("var and std: a large mean costs no digits; too few elements") {
  CHECK(var(of({16777216, 16777218, 16777220, 16777222, 16777224}, DType::f32)).item() == 10);
  for (DType type : {DType::f32, DType::f64}) {
    CHECK(std::isnan(std(of({1}, type)).item()));
    CHECK(std::isnan(var(of({}, type)).item()));
    CHECK(var(of({1, 2}, type), {}, 2).item() == kInf);
    CHECK(var(of({1, 2}, type), {}, 3).item() == kInf);
    CHECK(std::isnan(var(of({kInf, 1}, type)).item()));
    CHECK(var(of({0.1, 0.1, 0.1}, type)).item() == 0);
  }
  auto fn = [](const Tensor& x) { return var(x); };
  CHECK(close(gradient(fn, {1, 2, 6}), {-2, -1, 3}, 1e-14));
  CHECK(close(second(fn, {1, 2, 6}), {0, 0, 0}, 0));
}

}  // namespace
}  // namespace tern::ops_extremes
