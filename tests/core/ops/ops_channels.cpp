// Piecewise and gated activations, prelu, instance norm and dropout of whole channels: the op
// table, and PyTorch's values at corners.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"

namespace tern::ops_channels {
namespace {

using test::op, test::Array, test::Arrays, test::for_each_index, test::OpRow;
using Tensors = std::vector<Tensor>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

OpRow each(const char* name, std::function<Tensor(const Tensor&)> op, double (*f)(double),
           double low, double high) {
  return {name,
          {{3, 4}},
          [op](const Tensors& x) { return op(x[0]); },
          [f](const Arrays& x) {
            Array y(x[0].shape);
            for (int64_t i = 0; i < y.numel(); ++i) y[i] = f(x[0][i]);
            return y;
          },
          low,
          high};
}

TEST_CASE("op table: mish, hardswish, log_sigmoid") {
  test::run_rows({
      each(
          "mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, -3, 3),
      each(
          "hardswish", hardswish,
          [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }, -5, 5.3),
      each(
          "log_sigmoid", log_sigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -3, 3),
  });
}

TEST_CASE("op table: relu6, hardtanh, hardsigmoid, selu, celu, softsign, the shrinks, threshold") {
  constexpr double kScale = 1.0507009873554805, kAlpha = 1.6732632423543772;
  test::run_rows({
      each(
          "relu6", relu6, [](double x) { return std::min(std::max(x, 0.0), 6.0); }, -3, 9.1),
      each(
          "hardtanh", [](const Tensor& x) { return hardtanh(x, -0.7, 1.1); },
          [](double x) { return std::clamp(x, -0.7, 1.1); }, -2, 2),
      each(
          "hardsigmoid", hardsigmoid, [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); },
          -5, 5.3),
      each(
          "selu", selu, [](double x) { return kScale * (x > 0 ? x : kAlpha * (std::exp(x) - 1)); },
          -3, 3),
      each(
          "celu", [](const Tensor& x) { return celu(x, 1.5); },
          [](double x) { return std::max(x, 0.0) + std::min(1.5 * (std::exp(x / 1.5) - 1), 0.0); },
          -3, 3),
      each(
          "softsign", softsign, [](double x) { return x / (1 + std::abs(x)); }, -3, 3),
      each(
          "tanhshrink", tanhshrink, [](double x) { return x - std::tanh(x); }, -3, 3),
      each(
          "softshrink", [](const Tensor& x) { return softshrink(x, 0.7); },
          [](double x) { return x > 0.7    ? x - 0.7
                                : x < -0.7 ? x + 0.7
                                           : 0; }, -3, 3),
      each(
          "hardshrink", [](const Tensor& x) { return hardshrink(x, 0.7); },
          [](double x) { return std::abs(x) > 0.7 ? x : 0; }, -3, 3),
  });
}

// The expected values and gradients are PyTorch 2's.
TEST_CASE("activations: at their corners, for NaN and for integers") {
  const Tensor x = tensor({-1., 0., 1., 6., test::kNan}, DType::f64).set_requires_grad();
  using Doubles = std::vector<double>;
  auto gradient = [&](const Tensor& y) {
    Doubles g = grad({sum(narrow(y, 0, 0, 4))}, {x})[0].to_vector<double>();
    g.pop_back();
    return g;
  };
  CHECK(gradient(relu6(x)) == Doubles{0, 0, 1, 0});
  CHECK(gradient(hardtanh(x)) == Doubles{0, 1, 0, 0});
  CHECK(gradient(softshrink(x, 1)) == Doubles{0, 0, 0, 1});
  CHECK(gradient(hardshrink(x, 1)) == Doubles{0, 0, 0, 1});
  for (const Tensor& y : {relu6(x), hardtanh(x), hardsigmoid(x), selu(x), celu(x), softsign(x),
                          tanhshrink(x), softshrink(x), hardshrink(x)})
    CHECK(std::isnan(y[4].item()));
  const Tensor i = tensor({-9, 3, 9});
  CHECK(relu6(i).dtype() == DType::i64);
  CHECK(relu6(i).to_vector<double>() == Doubles{0, 3, 6});
  CHECK(hardtanh(i).to_vector<double>() == Doubles{-1, 1, 1});
  CHECK(hardtanh(i, -0.5, 0.5).to_vector<double>() == Doubles{-0.5, 0.5, 0.5});
  CHECK_THROWS_WITH_AS(hardtanh(x, 1, -1), doctest::Contains("above the upper bound"), Error);
  CHECK_THROWS_WITH_AS(softshrink(x, -1), doctest::Contains("must not be negative"), Error);
  CHECK_THROWS_WITH_AS(celu(x, 0), doctest::Contains("must not be 0"), Error);
}

TEST_CASE("activations: far from 0 and at their corners") {
  const Tensor x = tensor({-1e4, -3, 3, 1e4}, {4}, DType::f64).set_requires_grad();
  auto gradient = [&](const Tensor& y) { return grad({sum(y)}, {x})[0].to_vector<double>(); };
  CHECK(log_sigmoid(x).to_vector<double>()[0] == -1e4);
  CHECK(log_sigmoid(x).to_vector<double>()[3] == 0);
  CHECK(gradient(log_sigmoid(x))[0] == 1);
  CHECK(mish(x).to_vector<double>()[3] == 1e4);
  CHECK(gradient(mish(x))[0] == 0);
  CHECK(hardswish(x).to_vector<double>() == std::vector<double>{0, 0, 3, 1e4});
  CHECK(gradient(hardswish(x)) == std::vector<double>{0, 0, 1, 1});  // PyTorch's corners
}

OpRow prelu_row(const char* name, const Shape& x, const Shape& weight, bool channels) {
  OpRow row{name,
            {x, weight},
            [](const Tensors& in) { return prelu(in[0], in[1]); },
            [channels](const Arrays& in) {
              Array y(in[0].shape);
              for_each_index(y.shape, [&](const Dims& i) {
                const double v = in[0].at(i);
                y.at(i) = v > 0 ? v : v * in[1][channels ? i[1] : 0];
              });
              return y;
            }};
  row.empty_shapes = row.shapes;
  row.empty_shapes[0][0] = 0;
  return row;
}

TEST_CASE("op table: prelu and glu") {
  auto gated = [](int64_t axis) {
    return [axis](const Arrays& in) {
      Shape shape = in[0].shape;
      shape[static_cast<int>(axis)] /= 2;
      Array y(shape);
      for_each_index(shape, [&](const Dims& i) {
        Dims gate = i;
        gate[static_cast<int>(axis)] += shape[static_cast<int>(axis)];
        y.at(i) = in[0].at(i) * sigmoid_of(in[0].at(gate));
      });
      return y;
    };
  };
  op("glu", {{3, 6}}, [](const Tensors& x) { return glu(x[0]); }).equals(gated(1));
  op("glu, axis 1", {{2, 4, 3}}, [](const Tensors& x) { return glu(x[0], 1); }).equals(gated(1));
  test::run_rows({
      prelu_row("prelu", {3, 4}, {1}, false),
      prelu_row("prelu, a scalar weight", {3, 4}, {}, false),
      prelu_row("prelu, channels", {2, 3, 2, 2}, {3}, true),
  });
}

/// (x - mean) / sqrt(var + eps) * w + b, with mean and var of each channel of each sample.
Array naive_instance_norm(const Arrays& in, double eps) {
  const Array& x = in[0];
  Array y(x.shape);
  const Dims space(x.shape.begin() + 2, x.shape.end());
  for_each_index({x.shape[0], x.shape[1]}, [&](const Dims& at) {
    auto whole = [&](const Dims& k) {
      Dims i = at;
      for (int64_t v : k) i.push_back(v);
      return i;
    };
    double mean = 0, var = 0;
    const auto n = static_cast<double>(numel(space));
    for_each_index(space, [&](const Dims& k) { mean += x.at(whole(k)) / n; });
    for_each_index(space, [&](const Dims& k) { var += std::pow(x.at(whole(k)) - mean, 2) / n; });
    for_each_index(space, [&](const Dims& k) {
      y.at(whole(k)) = (x.at(whole(k)) - mean) / std::sqrt(var + eps);
      if (in.size() > 1) y.at(whole(k)) = y.at(whole(k)) * in[1][at[1]] + in[2][at[1]];
    });
  });
  return y;
}

TEST_CASE("op table: instance_norm") {
  op("instance_norm", {{2, 3, 4}}, [](const Tensors& x) { return instance_norm(x[0]); })
      .no_expanded()  // the variance would be 0
      .equals([](const Arrays& x) { return naive_instance_norm(x, 1e-5); });
  op("instance_norm, weight and bias", {{2, 3, 2, 2}, {3}, {3}},
     [](const Tensors& x) { return instance_norm(x[0], {}, {}, x[1], x[2], {.eps = 0.1}); })
      .empty({{0, 3, 2, 2}, {3}, {3}})
      .equals([](const Arrays& x) { return naive_instance_norm(x, 0.1); });
}

TEST_CASE("dropout of channels: drops whole channels, and so does its gradient") {
  Rng rng(3);
  const Tensor x = ones({40, 25, 3, 2}).set_requires_grad();
  const Tensor y = dropout2d(x, 0.2, rng);
  const std::vector<double> v = y.to_vector<double>();
  int64_t dropped = 0;
  for (size_t i = 0; i < v.size(); i += 6) {
    for (size_t k = 1; k < 6; ++k) REQUIRE(v[i + k] == v[i]);
    CHECK((v[i] == 0 || v[i] == doctest::Approx(1.25)));
    dropped += v[i] == 0;
  }
  CHECK(std::abs(static_cast<double>(dropped) - 200) < 5 * std::sqrt(1000 * 0.2 * 0.8));
  sum(y).backward();
  CHECK(x.grad().to_vector<double>() == v);
  CHECK(dropout1d(ones({2, 3, 4}), 0.5, rng).shape() == Shape{2, 3, 4});
  CHECK(dropout3d(ones({0, 3, 4, 1, 1}), 0.5, rng).shape() == Shape{0, 3, 4, 1, 1});
  CHECK(sum(dropout2d(ones({2, 3, 1, 1}), 1, rng)).item() == 0);
  CHECK(dropout2d(x, 0, rng).ref() == x.ref());
}

TEST_CASE("channels: errors name the op and the rule") {
  Rng rng(1);
  auto says = [](const char* words, const std::function<void()>& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(words), Error);
  };
  const Tensor x = zeros({2, 3, 4});
  says("glu: axis 1 of shape (2, 3, 4) cannot be split into halves", [&] { return glu(x, 1); });
  says("prelu: the weight must have shape (1,), or (3,) with one number per channel",
       [&] { return prelu(x, zeros({4})); });
  says("prelu: x is f32", [&] { return prelu(x, zeros({3}, DType::f64)); });
  says("instance_norm: needs (N, C, ...)", [&] { return instance_norm(zeros({2, 3})); });
  says("instance_norm: 3 channels", [&] { return instance_norm(x, {}, {}, zeros({4})); });
  says("instance_norm: needs more than one spatial element", [&] {
    return instance_norm(zeros({2, 3, 1}));
  });
  says("running_mean",
       [&] { return instance_norm(x, {}, {}, {}, {}, {.use_input_stats = false}); });
  says("dropout2d: the input must be (batch, channels, height, width)",
       [&] { return dropout2d(x, 0.5, rng); });
  says("dropout1d: the probability is 2", [&] { return dropout1d(x, 2, rng); });
}

}  // namespace
}  // namespace tern::ops_channels
