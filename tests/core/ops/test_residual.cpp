// Residual connections with dropout and norm in one pass (core/ops/normalisation/residual.h), and
// dropout inside linear, against the separate ops: the same bits where the operations and their
// order are the same, the same random numbers, and less kept memory.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/cpu.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/normalisation/residual.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/threads.h"

namespace tern::test_residual {
namespace {

using test::op, test::Array, test::Arrays;
using Inputs = std::vector<Tensor>;
using Function = std::function<std::vector<Tensor>(const Inputs&, Rng&)>;

std::vector<float> numbers(const Tensor& t) { return t.to_vector<float>(); }

/// All results and gradients, and the state of the generator afterwards.
std::vector<std::vector<float>> everything(const Function& fn, const Inputs& given) {
  Rng rng(11), ups(12);
  Inputs x;
  for (const Tensor& t : given) x.push_back(t.clone().set_requires_grad());
  std::vector<std::vector<float>> all;
  std::vector<Tensor> y = fn(x, rng), up;
  for (const Tensor& t : y) {
    all.push_back(numbers(t));
    up.push_back(randn(t.shape(), ups, t.dtype()));
  }
  for (const Tensor& g : grad(y, x, {.allow_unused = true, .gradients = up}))
    if (g.defined()) all.push_back(numbers(g));
  const auto [key, position] = rng.state();
  all.push_back({static_cast<float>(key), static_cast<float>(position)});
  return all;
}

void same_bits(const std::string& name, const Inputs& x, const Function& fused,
               const Function& single) {
  for (int level = 0; level <= static_cast<int>(detail::cpu().level); ++level) {
    VectorLevelScope scope{static_cast<VectorLevel>(level)};
    INFO(name, ", level ", level);
    const auto got = everything(fused, x), want = everything(single, x);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO("result or gradient ", i);
      CHECK(got[i] == want[i]);
    }
  }
}

const std::vector<Shape> kRows{{5, 1}, {3, 7}, {2, 9, 64}, {70, 33}, {3, 512}, {4, 1000}, {0, 4}};

Shape of_weights(const Shape& s) { return Shape(s.back()); }

TEST_CASE("residual: same bits as the separate ops") {
  Rng rng(1);
  for (const Shape& s : kRows)
    for (DType type : {DType::f32, DType::f64})
      for (double p : {0.0, 0.3}) {
        const Shape n = of_weights(s);
        const Inputs x{randn(s, rng, type), randn(s, rng, type), randn(n, rng, type),
                       randn(n, rng, type)};
        const std::string name = fmt::format("{} {} p = {}", s, type, p);
        auto sum = [p](const Inputs& in, Rng& r) { return in[1] + dropout(in[0], p, r); };
        same_bits(
            "dropout_add " + name, {x[0], x[1]},
            [p](const Inputs& in, Rng& r) -> Inputs { return {dropout_add(in[0], in[1], p, r)}; },
            [=](const Inputs& in, Rng& r) -> Inputs { return {sum(in, r)}; });
        auto options = [p](Rng& r) { return AddNormOptions{.eps = 1e-3, .dropout = p, .rng = &r}; };
        same_bits(
            "add_layer_norm " + name, x,
            [=](const Inputs& in, Rng& r) -> Inputs {
              return {add_layer_norm(in[0], in[1], n, in[2], in[3], options(r))};
            },
            [=](const Inputs& in, Rng& r) -> Inputs {
              return {layer_norm(sum(in, r), n, in[2], in[3], 1e-3)};
            });
        same_bits(
            "add_rms_norm, no weight " + name, {x[0], x[1]},
            [=](const Inputs& in, Rng& r) -> Inputs {
              return {add_rms_norm(in[0], in[1], n, {}, options(r))};
            },
            [=](const Inputs& in, Rng& r) -> Inputs {
              return {rms_norm(sum(in, r), n, {}, 1e-3)};
            });
        same_bits(
            "sum_and_layer_norm " + name, x,
            [=](const Inputs& in, Rng& r) -> Inputs {
              const SumAndNorm y = sum_and_layer_norm(in[0], in[1], n, in[2], in[3], options(r));
              return {y.sum * 2, y.norm};
            },
            [=](const Inputs& in, Rng& r) -> Inputs {
              const Tensor t = sum(in, r);
              return {t * 2, layer_norm(t, n, in[2], in[3], 1e-3)};
            });
        same_bits(
            "sum_and_rms_norm " + name, {x[0], x[1], x[2]},
            [=](const Inputs& in, Rng& r) -> Inputs {
              const SumAndNorm y = sum_and_rms_norm(in[0], in[1], n, in[2], options(r));
              return {y.sum * 2, y.norm};
            },
            [=](const Inputs& in, Rng& r) -> Inputs {
              const Tensor t = sum(in, r);
              return {t * 2, rms_norm(t, n, in[2], 1e-3)};
            });
      }
}

TEST_CASE("linear: dropout inside has the bits of dropout after linear") {
  Rng rng(2);
  for (int64_t out : {1, 7, 48, 512, 1000})
    for (auto activation : {Activation::none, Activation::relu, Activation::gelu, Activation::tanh})
      for (bool residual : {false, true}) {
        Inputs x{randn({3, 13, 6}, rng), randn({out, 6}, rng), randn({out}, rng)};
        if (residual) x.push_back(randn({3, 13, out}, rng));
        const std::string name = fmt::format("{} outputs, activation {}, residual {}", out,
                                             static_cast<int>(activation), residual);
        same_bits(
            name, x,
            [=](const Inputs& in, Rng& r) -> Inputs {
              return {linear(in[0], in[1], in[2],
                             {.activation = activation,
                              .residual = residual ? in[3] : Tensor(),
                              .dropout = 0.4,
                              .rng = &r})};
            },
            [=](const Inputs& in, Rng& r) -> Inputs {
              Tensor y = dropout(linear(in[0], in[1], in[2], {.activation = activation}), 0.4, r);
              return {residual ? y + in[3] : y};
            });
      }
}

TEST_CASE("residual: same bits on any number of threads") {
  Rng rng(3);
  const Inputs x{randn({301, 96}, rng), randn({301, 96}, rng), randn({96}, rng), randn({96}, rng)};
  auto fn = [](const Inputs& in, Rng& r) -> Inputs {
    const AddNormOptions options{.dropout = 0.1, .rng = &r};
    const SumAndNorm y = sum_and_layer_norm(in[0], in[1], 96, in[2], in[3], options);
    return {y.sum, add_layer_norm(y.norm, y.sum, 96, in[2], in[3], options)};
  };
  test::check_threads({3}, [&] { return everything(fn, x); });
}

// Resets the generator in every call, so that all calls draw the same mask.
AddNormOptions dropped(Rng& rng, double p = 0.3) {
  rng = Rng(5);
  return {.eps = 1e-3, .dropout = p, .rng = &rng};
}

TEST_CASE("op table: residual ops") {
  static Rng rng(5);
  auto kept = [](const Shape& shape) {  // 0 or 1/(1-p), drawn as in dropped()
    Rng r(5);
    return test::to_array(dropout(ones(shape, DType::f64), 0.3, r));
  };
  auto sum = [=](const Arrays& x) {
    Array s = x[1], m = kept(x[0].shape);
    for (int64_t i = 0; i < s.numel(); ++i) s[i] += x[0][i] * m[i];
    return s;
  };
  auto norm = [=](bool centred) {
    return [=](const Arrays& x) {
      Array s = sum(x);
      const int64_t n = s.shape.back();
      for (int64_t i = 0; i < s.numel(); i += n) {
        double mean = 0, square = 0;
        for (int64_t j = 0; j < n; ++j) mean += centred ? s[i + j] / static_cast<double>(n) : 0;
        for (int64_t j = 0; j < n; ++j)
          square += (s[i + j] - mean) * (s[i + j] - mean) / static_cast<double>(n);
        for (int64_t j = 0; j < n; ++j) {
          s[i + j] = (s[i + j] - mean) / std::sqrt(square + 1e-3) * x[2][j];
          if (centred) s[i + j] += x[3][j];
        }
      }
      return s;
    };
  };
  op("dropout_add", {{3, 5}, {3, 5}}, [](const Inputs& x) {
    dropped(rng);
    return dropout_add(x[0], x[1], 0.3, rng);
  }).equals(sum);
  op("add_layer_norm", {{3, 5}, {3, 5}, {5}, {5}}, [](const Inputs& x) {
    return add_layer_norm(x[0], x[1], 5, x[2], x[3], dropped(rng));
  }).equals(norm(true));
  op("add_rms_norm", {{3, 5}, {3, 5}, {5}}, [](const Inputs& x) {
    return add_rms_norm(x[0], x[1], 5, x[2], dropped(rng));
  }).equals(norm(false));
  op("sum_and_layer_norm", {{3, 5}, {3, 5}, {5}, {5}}, [](const Inputs& x) {
    const SumAndNorm y = sum_and_layer_norm(x[0], x[1], 5, x[2], x[3], dropped(rng));
    return y.sum * y.norm;
  }).equals([=](const Arrays& x) {
    Array y = norm(true)(x), s = sum(x);
    for (int64_t i = 0; i < y.numel(); ++i) y[i] *= s[i];
    return y;
  });
  op("linear with dropout", {{3, 4}, {5, 4}, {5}, {3, 5}}, [](const Inputs& x) {
    rng = Rng(5);
    return linear(x[0], x[1], x[2],
                  {.activation = Activation::gelu, .residual = x[3], .dropout = 0.3, .rng = &rng});
  }).equals([=](const Arrays& x) {
    Array y = x[3], m = kept({x[0].shape[0], 5});
    for (int64_t i = 0; i < y.numel(); ++i) {
      double v = x[2][i % 5];
      for (int64_t k = 0; k < 4; ++k) v += x[0][i / 5 * 4 + k] * x[1][i % 5 * 4 + k];
      y[i] += m[i] * 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
    }
    return y;
  });
}

TEST_CASE("residual: a residual that broadcasts, or to whose shape x broadcasts") {
  Rng rng(6);
  Tensor x = randn({2, 3, 4}, rng), r = randn({3, 1}, rng), wide = randn({5, 2, 3, 4}, rng);
  for (const Tensor& t : {x, r, wide}) t.set_requires_grad();
  for (const Tensor& residual : {r, wide}) {
    Rng a(7), b(7);
    Tensor got = add_layer_norm(x, residual, 4, {}, {}, {.dropout = 0.5, .rng = &a});
    Tensor want = layer_norm(residual + dropout(x, 0.5, b), 4);
    CHECK(numbers(got) == numbers(want));
    const auto g = grad({sum(square(got))}, {x, residual}),
               w = grad({sum(square(want))}, {x, residual});
    for (size_t i = 0; i < 2; ++i) CHECK(all_close(g[i], w[i], 1e-4, 1e-5));
    CHECK(numbers(dropout_add(x, residual, 0.5, a)) == numbers(residual + dropout(x, 0.5, b)));
  }
}

TEST_CASE("residual: without eps each norm has its own, also beside other options") {
  Rng rng(10);
  const Tensor x = randn({5, 4}, rng) * 1e-3, r = randn({5, 4}, rng) * 1e-3;
  Rng a(7);
  const Tensor sum = r + dropout(x, 0.5, a);
  const Tensor layer = layer_norm(sum, 4), rms = rms_norm(sum, 4);
  const auto options = [&] {
    a = Rng(7);
    return AddNormOptions{.dropout = 0.5, .rng = &a};
  };
  CHECK(numbers(add_layer_norm(x, r, 4, {}, {}, options())) == numbers(layer));
  CHECK(numbers(add_rms_norm(x, r, 4, {}, options())) == numbers(rms));
  CHECK(numbers(sum_and_layer_norm(x, r, 4, {}, {}, options()).norm) == numbers(layer));
  CHECK(numbers(sum_and_rms_norm(x, r, 4, {}, options()).norm) == numbers(rms));
  CHECK(all_close(composed::add_layer_norm(x, r, 4, {}, {}, options()), layer, 1e-4, 1e-5));
  CHECK(all_close(composed::add_rms_norm(x, r, 4, {}, options()), rms, 1e-4, 1e-5));
}

TEST_CASE("residual: everything dropped, nothing dropped") {
  Rng rng(8);
  Tensor x = randn({3, 4}, rng), r = randn({3, 4}, rng), w = randn({4, 4}, rng);
  CHECK(numbers(dropout_add(x, r, 1, rng)) == numbers(r));
  CHECK(numbers(add_layer_norm(x, r, 4, {}, {}, {.dropout = 1, .rng = &rng})) ==
        numbers(layer_norm(r, 4)));
  CHECK(numbers(linear(x, w, {}, {.residual = r, .dropout = 1, .rng = &rng})) == numbers(r));
  const Rng before = rng;
  static_cast<void>(dropout_add(x, r, 0, rng));
  static_cast<void>(add_layer_norm(x, r, 4, {}, {}, {.dropout = 0, .rng = &rng}));
  static_cast<void>(linear(x, w, {}, {.residual = r, .dropout = 0, .rng = &rng}));
  CHECK(rng == before);
}

TEST_CASE("residual: errors") {
  Rng rng(9);
  Tensor x = zeros({3, 4});
  CHECK_THROWS_WITH_AS(dropout_add(x, zeros({3, 5}), 0.1, rng), doctest::Contains("dropout_add: "),
                       Error);
  CHECK_THROWS_WITH_AS(dropout_add(x, Tensor(), 0.1, rng),
                       doctest::Contains("dropout_add: operand 2 is undefined"), Error);
  CHECK_THROWS_WITH_AS(dropout_add(x, x, 1.5, rng),
                       "dropout_add: the probability is 1.5, outside [0, 1]", Error);
  CHECK_THROWS_WITH_AS(add_layer_norm(x, zeros({3, 4}, DType::f64), 4),
                       "add_layer_norm: x is f32, the residual f64; convert one with .to()", Error);
  CHECK_THROWS_WITH_AS(add_layer_norm(x, x, 4, {}, {}, {.dropout = 0.1}),
                       "add_layer_norm: dropout of 0.1 needs a generator; give .rng = &rng", Error);
  CHECK_THROWS_WITH_AS(add_rms_norm(x, x, 3), doctest::Contains("add_rms_norm: the last axes"),
                       Error);
  CHECK_THROWS_WITH_AS(linear(x, zeros({2, 4}), {}, {.dropout = 0.1}),
                       "linear: dropout of 0.1 needs a generator; give .rng = &rng", Error);
}

// The memory that a recorded pass adds, in units of its result.
double held(const std::function<Tensor()>& fn) {
  const int64_t before = memory_stats().live;
  Tensor y = fn();
  const int64_t size = y.numel() * 4;
  return static_cast<double>(memory_stats().live - before) / static_cast<double>(size);
}

TEST_CASE("linear: a ReLU and its dropout keep one tensor") {
  Rng rng(10);
  Tensor x = randn({512, 4}, rng), w = randn({512, 4}, rng);
  w.set_requires_grad();
  auto with = [&](Activation a) {
    return held([&] { return linear(x, w, {}, {.activation = a, .dropout = 0.1, .rng = &rng}); });
  };
  CHECK(with(Activation::relu) == doctest::Approx(1).epsilon(0.1));
  CHECK(with(Activation::gelu) == doctest::Approx(2).epsilon(0.1));  // and the pre-activation
  CHECK(held([&] {
          return dropout(linear(x, w, {}, {.activation = Activation::relu}), 0.1, rng);
        }) == doctest::Approx(2).epsilon(0.1));
}

}  // namespace
}  // namespace tern::test_residual
