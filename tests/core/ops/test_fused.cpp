// fused() as an op: broadcasting, the tensors it saves, gradients that cost nothing, errors,
// observers. Its words are tested in test_fused_words.cpp.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/fused.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/core/ops/subjects.h"
#include "tern/tests/support/threads.h"

namespace tern::test_fused {
namespace {

using test::op, test::Array, test::Arrays, test::Inputs;

constexpr auto kSwiglu = [](auto a, auto b) { return a * sigmoid(a) * b; };
constexpr auto kGate = [](auto u, auto f, auto b) { return u * (f + b); };
constexpr auto kScaled = [](auto x, auto y, auto g, auto m) { return x + y * g * m; };
constexpr auto kEight = [](auto a, auto b, auto c, auto d, auto e, auto f, auto g, auto h) {
  return a * b + c * d * sin(e) - f / g + tanh(h);
};

template <size_t... K>
Tensor fused_eight(const Inputs& x, std::index_sequence<K...>) {
  return fused("eight", kEight, x[K]...);
}
template <size_t... K>
Tensor composed_eight(const Inputs& x, std::index_sequence<K...>) {
  return composed::fused("eight", kEight, x[K]...);
}

TEST_CASE("op table: fused formulas of several inputs") {
  auto naive_gate = [](const Arrays& x) {  // shapes (2,3,4) (2,3,4) (3,1)
    Array y = x[0];
    for (int64_t i = 0; i < y.numel(); ++i) y[i] *= x[1][i] + x[2][i / 4 % x[2].numel()];
    return y;
  };
  auto naive_scaled = [](const Arrays& x) {  // shapes (2,3,4) (2,3,4) (4) (2,1,1)
    Array y = x[0];
    for (int64_t i = 0; i < y.numel(); ++i) y[i] += x[1][i] * x[2][i % 4] * x[3][i / 12];
    return y;
  };
  op("fused, two", {{3, 5}, {3, 5}}, [](const Inputs& x) {
    return fused("swiglu", kSwiglu, x[0], x[1]);
  }).equals([](const Arrays& x) {
    Array y = x[0];
    for (int64_t i = 0; i < y.numel(); ++i) y[i] = y[i] / (1 + std::exp(-y[i])) * x[1][i];
    return y;
  });
  op("fused, three, broadcast", {{2, 3, 4}, {2, 3, 4}, {3, 1}}, [](const Inputs& x) {
    return fused("gate", kGate, x[0], x[1], x[2]);
  }).equals(naive_gate);
  test::run_rows({
      {.name = "fused, four, broadcast",
       .shapes = {{2, 3, 4}, {2, 3, 4}, {4}, {2, 1, 1}},
       .fn = [](const Inputs& x) { return fused("scaled", kScaled, x[0], x[1], x[2], x[3]); },
       .naive = naive_scaled,
       .skip_empty = false},
  });
}

TEST_CASE("fused and composed: formulas") {
  using test::N;
  test::check_composed({
      {"swiglu",
       {{3, N, N}, {3, N, N}},
       [](const Inputs& x) { return fused("swiglu", kSwiglu, x[0], x[1]); },
       [](const Inputs& x) { return composed::fused("swiglu", kSwiglu, x[0], x[1]); }},
      {"scaled",
       {{3, N, 2 * N}, {3, N, 2 * N}, {2 * N}, {3, 1, 1}},
       [](const Inputs& x) { return fused("scaled", kScaled, x[0], x[1], x[2], x[3]); },
       [](const Inputs& x) { return composed::fused("scaled", kScaled, x[0], x[1], x[2], x[3]); },
       3},
  });
}

TEST_CASE("fused: eight inputs, second derivatives") {
  Rng rng(4);
  Inputs x;
  for (const Shape& s : std::vector<Shape>{{2, 3}, {3}, {2, 1}, {2, 3}, {}, {1, 3}, {2, 3}, {2, 3}})
    x.push_back((uniform(s, 0.5, 2, rng, DType::f64)).set_requires_grad());
  auto fn = [](const Inputs& in) { return fused_eight(in, std::make_index_sequence<8>()); };
  CHECK(all_close(fn(x), composed_eight(x, std::make_index_sequence<8>()), 1e-12, 1e-12));
  CHECK_NOTHROW(gradcheck(fn, x));
  CHECK_NOTHROW(gradgradcheck(fn, x));
}

// A pass of many blocks over operands of every layout.
TEST_CASE("fused: large passes have the same bits on any number of threads") {
  Rng rng(5);
  const Shape shape{7, 61, 333};
  Tensor x = transpose(randn({61, 7, 333}, rng), 0, 1),
         y = slice(randn({7, 61, 666}, rng), 2, 0, {}, 2), g = randn({333}, rng),
         m = randn({7, 1, 1}, rng);
  for (Tensor* t : {&x, &y, &g, &m}) *t = t->detach().set_requires_grad();
  auto run = [&] {
    Tensor out = fused("scaled", kScaled, x, y, g, m);
    std::vector<std::vector<float>> all{out.to_vector<float>()};
    for (const Tensor& d : grad({out}, {x, y, g, m}, {.gradients = {ones(shape)}}))
      all.push_back(d.to_vector<float>());
    return all;
  };
  test::check_threads({3}, run);
  const auto one = run();
  const std::vector<float> want = (x + y * g * m).to_vector<float>();
  for (size_t i = 0; i < want.size(); i += 101) CHECK(one[0][i] == doctest::Approx(want[i]));
}

TEST_CASE("fused: only tensors that slopes read are saved") {
  Rng rng(6);
  Tensor x = randn({4, 5}, rng).set_requires_grad(), y = randn({4, 5}, rng).set_requires_grad();
  Tensor a = x + 0, b = y + 0, m = tensor({0, 2, 0, 2}, {4, 1});
  auto formula = [](auto u, auto v, auto w) { return u + v * w; };
  auto written = [&](const Tensor& t, double number) {
    NoGradGuard guard;
    fill_(t.detach(), number);
  };
  Tensor s = fused("kept", formula, a, b, m);
  written(a, 3);  // no slope reads a, and no needed slope reads b
  written(b, 3);
  const auto g = grad({sum(s)}, {x, y});
  CHECK(g[0].to_vector<double>() == std::vector<double>(20, 1));
  CHECK(sum(g[1]).item() == 20);
  s = fused("kept", formula, a, b, m);
  written(m, 1);
  CHECK_THROWS_WITH_AS(backward(sum(s)), doctest::Contains("kept saved a tensor"), Error);
}

TEST_CASE("fused: a slope of 1 passes the gradient on, equal slopes share one gradient") {
  Rng rng(7);
  Tensor a = randn({4, 5}, rng).set_requires_grad(), b = randn({4, 5}, rng).set_requires_grad(),
         c = randn({4, 5}, rng).set_requires_grad(), up = randn({4, 5}, rng);
  auto g = grad({fused(
                    "sum", [](auto u, auto v, auto w) { return u + v * w; }, a, b, c)},
                {a, b, c}, {.gradients = {up}});
  CHECK(g[0].data<float>() == up.data<float>());
  CHECK(all_close(g[1], up * c));
  CHECK(all_close(g[2], up * b));
  g = grad({fused(
               "gate", [](auto u, auto v, auto w) { return (u + v) * w; }, a, b, c)},
           {a, b, c}, {.gradients = {up}});
  CHECK(g[0].data<float>() == g[1].data<float>());
  CHECK(all_close(g[0], up * c));
  CHECK(all_close(g[2], up * (a + b), 1e-5, 1e-6));
}

TEST_CASE("fused: an input that the formula does not read has a gradient of 0") {
  Tensor a = ones({3}).set_requires_grad(), b = ones({3}).set_requires_grad();
  const auto g = grad({sum(fused(
                          "first", [](auto u, auto) { return 2 * u; }, a, b))},
                      {a, b});
  CHECK(g[0].to_vector<double>() == std::vector<double>(3, 2));
  CHECK(g[1].to_vector<double>() == std::vector<double>(3, 0));
}

TEST_CASE("fused: integers are read as floats and have no gradient") {
  Rng rng(8);
  Tensor x = randn({3, 4}, rng, DType::f64).set_requires_grad();
  Tensor keep = tensor({1, 0, 1, 1}, {4}, DType::u8);
  auto formula = [](auto v, auto k) { return where(k != 0, v * v, 0); };
  Tensor y = fused("masked", formula, x, keep);
  CHECK(y.dtype() == DType::f64);
  CHECK(all_close(y, where(keep, x * x, 0)));
  CHECK(all_close(grad({sum(y)}, {x})[0], where(keep, 2 * x, 0)));
  CHECK_NOTHROW(
      gradgradcheck([&](const Inputs& in) { return fused("masked", formula, in[0], keep); }, {x}));
  CHECK(fused(
            "halved", [](auto v) { return v / 2; }, arange(0, 3))
            .to_vector<double>() == std::vector<double>{0, 0.5, 1});
}

TEST_CASE("fused: an infinite slope in a branch that is not taken has no effect") {
  Tensor x = tensor({0, 4, -1}, {3}, DType::f64).set_requires_grad();
  auto formula = [](auto v) { return where(v > 0, log(v) + sqrt(v), 3 * v); };
  for (bool recorded : {false, true}) {
    Tensor y = fused("pieces", formula, x);
    CHECK(y.to_vector<double>() == std::vector<double>{0, std::log(4) + 2, -3});
    const Tensor g = grad({sum(y)}, {x}, {.create_graph = recorded})[0];
    CHECK(g.to_vector<double>() == std::vector<double>{3, 0.5, 3});
  }
}

TEST_CASE("fused: captured numbers, empty and zero-dimensional tensors") {
  const double p = 0.25;
  auto leaky = [p](auto x) { return where(x > 0, x, x * p); };
  CHECK(fused("leaky", leaky, tensor({-4, 4}, {2})).to_vector<double>() ==
        std::vector<double>{-1, 4});
  CHECK(fused("leaky", leaky, scalar(-4)).item() == -1);
  Tensor none = zeros({0, 3}).set_requires_grad();
  Tensor y = fused("swiglu", kSwiglu, none, zeros({1, 3}));
  CHECK(y.shape() == Shape{0, 3});
  CHECK(grad({sum(y)}, {none})[0].shape() == Shape{0, 3});
}

TEST_CASE("fused: errors and observers give the name of the formula") {
  CHECK_THROWS_WITH_AS(fused("swiglu", kSwiglu, zeros({3}), Tensor()),
                       doctest::Contains("swiglu: operand 2 is undefined"), Error);
  CHECK_THROWS_WITH_AS(fused("swiglu", kSwiglu, zeros({3}), zeros({4})),
                       doctest::Contains("swiglu: "), Error);
  CHECK_THROWS_WITH_AS(fused("swiglu", kSwiglu, zeros({3}), zeros({3}, DType::f64)),
                       doctest::Contains("swiglu: mixes f32 and f64"), Error);
  struct Names : Observer {
    std::vector<std::string> seen;
    void begin(const OpScope& op) override {
      seen.push_back(std::string(op.name()) + (op.is_vjp() ? " backward" : ""));
    }
  } names;
  Tensor a = ones({3}).set_requires_grad(), b = ones({3}).set_requires_grad(), up = ones({3});
  {
    ObserverScope watching(names);
    Tensor y = fused("swiglu", kSwiglu, a, b);
    static_cast<void>(grad({y}, {a, b}, {.gradients = {up}}));
  }
  CHECK(names.seen == std::vector<std::string>{"swiglu", "swiglu backward"});
}

}  // namespace
}  // namespace tern::test_fused
