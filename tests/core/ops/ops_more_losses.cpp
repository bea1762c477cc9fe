// The losses of losses.h: PyTorch's numbers (tests/reference/losses/make_losses.py), the op table,
// and ctc_loss against a sum over all alignments.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_more_losses {
namespace {

using test::op, test::Array, test::Arrays, test::kInf;
using Inputs = std::vector<Tensor>;

constexpr auto kNone = Reduction::none;
constexpr auto kSum = Reduction::sum;

Tensor hard() { return tensor({1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1}, {3, 4}, DType::f64); }
Tensor signs() { return tensor({1, -1, -1}, {3}, DType::i64); }
Tensor soft() { return tensor({0, 0, 1, .3}, {4}, DType::f64); }
Tensor padded() { return tensor({1, 1, 3, 2, 4, 0, 3, 0, 0}, {3, 3}, DType::i64); }

using Lengths = std::vector<int64_t>;
TensorFunction ctc(const Tensor& targets, Lengths inputs, Lengths lengths, CtcOptions o = {}) {
  return
      [=](const Inputs& x) { return ctc_loss(log_softmax(x[0], -1), targets, inputs, lengths, o); };
}

struct Case {
  std::string name;
  TensorFunction fn;
  double rtol = 1e-11;
};

// The cases of make_losses.py.
std::vector<Case> pair_cases() {
  return {
      {"huber", [](const Inputs& x) { return huber_loss(x[0], x[1]); }},
      {"huber_delta",
       [](const Inputs& x) { return huber_loss(x[0], x[1], {.delta = .7, .reduction = kSum}); }},
      {"bce", [](const Inputs& x) { return binary_cross_entropy(x[0], x[1]); }},
      {"bce_weight",
       [](const Inputs& x) {
         Tensor w = tensor({.5, 2, 1, 1.5}, {4}, DType::f64);
         return binary_cross_entropy(x[0], soft(), {.weight = w, .reduction = kNone});
       }},
      // PyTorch stores the bound 1e-12 as f32.
      {"bce_ends",
       [](const Inputs& x) { return binary_cross_entropy(x[0], soft(), {.reduction = kSum}); },
       1e-8},
      {"gaussian", [](const Inputs& x) { return gaussian_nll_loss(x[0], x[1], x[2]); }},
      {"gaussian_full",
       [](const Inputs& x) {
         return gaussian_nll_loss(x[0], x[1], x[2], {.full = true, .eps = .25, .reduction = kNone});
       }},
      {"gaussian_rows",
       [](const Inputs& x) { return gaussian_nll_loss(x[0], x[1], x[2], {.reduction = kSum}); }},
      {"gaussian_column", [](const Inputs& x) { return gaussian_nll_loss(x[0], x[1], x[2]); }},
      {"focal", [](const Inputs& x) { return sigmoid_focal_loss(x[0], hard()); }},
      {"focal_mean",
       [](const Inputs& x) {
         return sigmoid_focal_loss(x[0], hard(), {.reduction = Reduction::mean});
       }},
      {"focal_options",
       [](const Inputs& x) {
         return sigmoid_focal_loss(x[0], hard(), {.alpha = -1, .gamma = 1.5, .reduction = kSum});
       }},
      {"focal_soft",
       [](const Inputs& x) { return sigmoid_focal_loss(x[0], x[1], {.reduction = kSum}); }},
      {"focal_gamma_0",
       [](const Inputs& x) { return sigmoid_focal_loss(x[0], hard(), {.gamma = 0}); }},
  };
}

std::vector<Case> row_cases() {
  return {
      {"cosine", [](const Inputs& x) { return cosine_similarity(x[0], x[1]); }},
      {"cosine_axis_0", [](const Inputs& x) { return cosine_similarity(x[0], x[1], 0); }},
      {"cosine_broadcast", [](const Inputs& x) { return cosine_similarity(x[0], x[1], -1); }},
      {"cosine_zero_row", [](const Inputs& x) { return cosine_similarity(x[0], x[1]); }},
      {"distance", [](const Inputs& x) { return pairwise_distance(x[0], x[1]); }},
      {"distance_p3",
       [](const Inputs& x) { return pairwise_distance(x[0], x[1], {.p = 3, .keepdim = true}); }},
      {"embedding", [](const Inputs& x) { return cosine_embedding_loss(x[0], x[1], signs()); }},
      {"embedding_margin",
       [](const Inputs& x) {
         return cosine_embedding_loss(x[0], x[1], signs().to(DType::f32),
                                      {.margin = .2, .reduction = kNone});
       }},
      {"embedding_row",
       [](const Inputs& x) {
         return cosine_embedding_loss(x[0], x[1], signs()[0], {.reduction = kSum});
       }},
      {"embedding_zero_row",
       [](const Inputs& x) { return cosine_embedding_loss(x[0], x[1], signs()); }},
      {"triplet", [](const Inputs& x) { return triplet_margin_loss(x[0], x[1], x[2]); }},
      {"triplet_options",
       [](const Inputs& x) {
         return triplet_margin_loss(x[0], x[1], x[2],
                                    {.margin = 2.5, .p = 1, .swap = true, .reduction = kNone});
       }},
      {"triplet_row",
       [](const Inputs& x) { return triplet_margin_loss(x[0], x[1], x[2], {.reduction = kSum}); }},
      {"triplet_same", [](const Inputs& x) { return triplet_margin_loss(x[0], x[1], x[2]); }},
  };
}

std::vector<Case> ctc_cases() {
  Tensor joined = tensor({1, 1, 3, 2, 4}, {5}, DType::i64);
  Tensor others = tensor({1, 1, 3, 2, 0, 0, 3, 0, 0}, {3, 3}, DType::i64);
  return {
      {"ctc", ctc(padded(), {6, 5, 4}, {3, 2, 0})},
      {"ctc_none", ctc(padded(), {6, 5, 4}, {3, 2, 0}, {.reduction = kNone})},
      {"ctc_joined", ctc(joined, {6, 5, 4}, {3, 2, 0}, {.reduction = kSum})},
      {"ctc_infinite", ctc(padded(), {3, 5, 0}, {3, 2, 1}, {.reduction = kNone})},
      {"ctc_zero_infinity", ctc(padded(), {3, 5, 0}, {3, 2, 1}, {.zero_infinity = true})},
      {"ctc_nothing", ctc(padded(), {6, 0, 0}, {3, 0, 0}, {.reduction = kNone})},
      {"ctc_blank_4", ctc(others, {6, 5, 4}, {3, 2, 1}, {.blank = 4})},
      {"ctc_one", ctc(padded()[0], {6}, {3})},
  };
}

void check_near(const std::string& what, const Tensor& got, const Tensor& want, double rtol) {
  INFO(what);
  REQUIRE(got.shape() == want.shape());
  const std::vector<double> g = got.to_vector<double>(), w = want.to_vector<double>();
  for (size_t i = 0; i < g.size(); ++i) {
    const bool same = g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]));
    CHECK_MESSAGE((same || std::abs(g[i] - w[i]) <= rtol * std::max(1.0, std::abs(w[i]))), g[i],
                  " instead of ", w[i]);
  }
}

void check_cases(const std::vector<Case>& cases) {
  const SafeTensors file =
      load_safetensors(TERN_SOURCE_DIR "/tests/reference/losses/losses.safetensors");
  const std::map<std::string, Tensor> stored(file.tensors.begin(), file.tensors.end());
  for (const Case& c : cases) {
    Inputs leaves;
    for (int i = 0; stored.contains(fmt::format("{}.{}", c.name, i)); ++i)
      leaves.push_back(stored.at(fmt::format("{}.{}", c.name, i)).clone().set_requires_grad());
    REQUIRE_FALSE(leaves.empty());
    check_near(c.name, c.fn(leaves), stored.at(c.name + ".value"), c.rtol);
    const std::vector<Tensor> plain = grad({sum(c.fn(leaves))}, leaves);
    const std::vector<Tensor> recorded = grad({sum(c.fn(leaves))}, leaves, {.create_graph = true});
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Tensor& want = stored.at(fmt::format("{}.gradient.{}", c.name, i));
      check_near(c.name + ", gradient", plain[i], want, c.rtol);
      check_near(c.name + ", recorded gradient", recorded[i], want, c.rtol);
    }
  }
}

TEST_CASE("losses.h: PyTorch's numbers, losses of two tensors") { check_cases(pair_cases()); }
TEST_CASE("losses.h: PyTorch's numbers, losses of rows") { check_cases(row_cases()); }
TEST_CASE("ctc_loss: PyTorch's numbers after log_softmax") { check_cases(ctc_cases()); }

Array each(const Arrays& in, const std::function<double(double, double)>& f) {
  Array y(in[0].shape);
  for (int64_t i = 0; i < y.numel(); ++i) y[i] = f(in[0][i], in[1][i]);
  return y;
}

TEST_CASE("op table: losses.h, losses of two tensors") {
  const std::vector<Shape> shapes{{3, 4}, {3, 4}};
  auto naive = [](const std::function<double(double, double)>& f) {
    return [=](const Arrays& in) { return each(in, f); };
  };
  op("huber_loss", shapes, [](const Inputs& x) {
    return huber_loss(x[0], x[1], {.delta = .7, .reduction = kNone});
  }).equals(naive([](double x, double y) {
    double d = std::abs(x - y);
    return d <= .7 ? d * d / 2 : .7 * (d - .35);
  }));
  op("binary_cross_entropy", shapes,
     [](const Inputs& x) { return binary_cross_entropy(x[0], x[1], {.reduction = kNone}); })
      .between(.1, .9)
      .equals(
          naive([](double p, double y) { return -(y * std::log(p) + (1 - y) * std::log(1 - p)); }));
  op("gaussian_nll_loss", shapes,
     [](const Inputs& x) { return gaussian_nll_loss(x[0], 2 * x[0], x[1], {.reduction = kNone}); })
      .between(.2, 2)
      .equals(naive([](double x, double v) { return .5 * (std::log(v) + x * x / v); }));
  op("sigmoid_focal_loss", shapes, [](const Inputs& x) { return sigmoid_focal_loss(x[0], x[1]); })
      .between(.1, .9)
      .equals(naive([](double x, double y) {
        double p = 1 / (1 + std::exp(-x)), away = p * (1 - y) + (1 - p) * y;
        double ce = -(y * std::log(p) + (1 - y) * std::log(1 - p));
        return (.25 * y + .75 * (1 - y)) * away * away * ce;
      }));
}

TEST_CASE("op table: losses.h, losses of rows") {
  // Calls f with each pair of rows of 4 numbers of in[0] and in[1].
  auto rows = [](const std::function<double(const double*, const double*)>& f) {
    return [=](const Arrays& in) {
      Array y(Shape{in[0].shape[0]});
      for (int64_t n = 0; n < y.numel(); ++n) y[n] = f(&in[0].v[4 * n], &in[1].v[4 * n]);
      return y;
    };
  };
  auto dot = [](const double* a, const double* b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
  };
  auto cosine = [=](const double* a, const double* b) {
    return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
  };
  auto distance = [](const double* a, const double* b) {
    double s = 0;
    for (int i = 0; i < 4; ++i) s += (a[i] - b[i] + 1e-6) * (a[i] - b[i] + 1e-6);
    return std::sqrt(s);
  };
  const std::vector<Shape> shapes{{3, 4}, {3, 4}}, empty{{0, 4}, {0, 4}};
  op("cosine_similarity", shapes, [](const Inputs& x) { return cosine_similarity(x[0], x[1]); })
      .empty(empty)
      .equals(rows(cosine));
  op("pairwise_distance", shapes, [](const Inputs& x) { return pairwise_distance(x[0], x[1]); })
      .empty(empty)
      .equals(rows(distance));
  op("cosine_embedding_loss", shapes,
     [](const Inputs& x) {
       return cosine_embedding_loss(x[0], x[1], -ones({x[0].size(0)}),
                                    {.margin = -2, .reduction = kNone});
     })
      .empty(empty)
      .equals(rows([=](const double* a, const double* b) { return cosine(a, b) + 2; }));
  op("triplet_margin_loss", shapes,
     [](const Inputs& x) {
       return triplet_margin_loss(x[0], x[1], 2 * x[1] + 3, {.margin = 30, .reduction = kNone});
     })
      .empty(empty)
      .equals(rows([=](const double* a, const double* b) {
        double c[4];
        for (int i = 0; i < 4; ++i) c[i] = 2 * b[i] + 3;
        return distance(a, b) - distance(a, c) + 30;
      }));
}

/// -log of the summed probability of all sequences of `times` classes that spell y.
double spelt(const Tensor& log_probs, const std::vector<int64_t>& y, int64_t times) {
  const int64_t classes = log_probs.size(1);
  const std::vector<double> lp = log_probs.to_vector<double>();
  double total = 0;
  int64_t ways = 1;
  for (int64_t t = 0; t < times; ++t) ways *= classes;
  for (int64_t way = 0; way < ways; ++way) {
    std::vector<int64_t> word;
    double p = 0;
    int64_t before = 0, rest = way;
    for (int64_t t = 0; t < times; ++t, rest /= classes) {
      const int64_t c = rest % classes;
      p += lp[t * classes + c];
      if (c != 0 && c != before) word.push_back(c);
      before = c;
    }
    if (word == y) total += std::exp(p);
  }
  return -std::log(total);
}

TEST_CASE("ctc_loss: the sum over all alignments, and its derivative") {
  Rng rng(5);
  for (const Lengths& y : std::vector<Lengths>{{1, 2}, {1, 1}, {2}, {}, {1, 2, 1}}) {
    Tensor lp = randn({5, 3}, rng, DType::f64).set_requires_grad();  // not normalised
    Tensor target = tensor(y, {std::ssize(y)}).to(DType::i64);
    auto loss = [&](const Inputs& x) {
      return ctc_loss(x[0], target, {4}, {std::ssize(y)}, {.reduction = kSum});
    };
    CHECK(loss({lp}).item() == doctest::Approx(spelt(lp, y, 4)).epsilon(1e-12));
    gradcheck(loss, {lp});
  }
}

TEST_CASE("ctc_loss: samples are independent, also of threads; long inputs stay exact") {
  Rng rng(6);
  const int64_t times = 300, samples = 4, classes = 7;
  Tensor x = randn({times, samples, classes}, rng).set_requires_grad();
  Tensor targets = randint(1, classes, {samples, 40}, rng);
  const Lengths inputs{300, 280, 120, 100}, lengths{40, 39, 20, 40};
  auto run = [&](const Tensor& leaf, const Tensor& y, const Lengths& in, const Lengths& out) {
    Tensor losses = ctc_loss(log_softmax(leaf, -1), y, in, out, {.reduction = kNone});
    std::vector<float> all = grad({sum(losses)}, {leaf})[0].to_vector<float>();
    for (float v : losses.to_vector<float>()) all.push_back(v);
    return all;
  };
  const std::vector<float> together = run(x, targets, inputs, lengths);
  test::check_threads({3}, [&] { return run(x, targets, inputs, lengths); });
  for (int64_t n = 0; n < samples; ++n) {
    Tensor one = narrow(x.detach(), 1, n, 1).clone().set_requires_grad();
    const std::vector<float> alone = run(one, narrow(targets, 0, n, 1), {inputs[n]}, {lengths[n]});
    for (int64_t t = 0; t < times; ++t)
      for (int64_t c = 0; c < classes; ++c)
        CHECK(alone[t * classes + c] == together[(t * samples + n) * classes + c]);
    CHECK(alone.back() == together[times * samples * classes + n]);
  }
  // In f32 the loss of 300 steps equals that of f64 up to rounding.
  Tensor wide = x.detach().to(DType::f64);
  Tensor exact = ctc_loss(log_softmax(wide, -1), targets, inputs, lengths, {.reduction = kNone});
  for (int64_t n = 0; n < samples; ++n)
    CHECK(together[times * samples * classes + n] ==
          doctest::Approx(exact[n].item()).epsilon(1e-6));
}

TEST_CASE("ctc_loss: strided input, no second derivative, errors") {
  Rng rng(7);
  Tensor x = transpose(randn({2, 5, 3}, rng, DType::f64), 0, 1).set_requires_grad();
  Tensor y = tensor({1, 2, 2, 1}, {2, 2}, DType::i64);
  auto loss = [&](const Inputs& in) { return ctc_loss(in[0], y, {5, 4}, {2, 1}); };
  CHECK(loss({x}).item() == loss({x.detach().clone()}).item());
  Tensor first = grad({loss({x})}, {x}, {.create_graph = true})[0];
  CHECK_THROWS_WITH_AS(grad({sum(square(first))}, {x}),
                       doctest::Contains("ctc_loss: its fused backward has no second derivative"),
                       Error);
  Tensor lp = zeros({5, 2, 3});
  auto refused = [&](const char* text, const auto& fn) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains(text), Error);
  };
  refused("target 3 of sample 1 at position 0 must be a class in [0, 3)", [&] {
    return ctc_loss(lp, tensor({1, 3}, {2, 1}, DType::i64), {5, 5}, {1, 1});
  });
  refused("not the blank 1", [&] {
    return ctc_loss(lp, tensor({1, 2}, {2, 1}, DType::i64), {5, 5}, {1, 1}, {.blank = 1});
  });
  refused("input length 6 of sample 0", [&] { return ctc_loss(lp, y, {6, 5}, {1, 1}); });
  refused("target length 3 of sample 1", [&] { return ctc_loss(lp, y, {5, 5}, {1, 3}); });
  refused("target length -1", [&] { return ctc_loss(lp, y, {5, 5}, {1, -1}); });
  refused("add up to 3, but there are 4 targets", [&] {
    return ctc_loss(lp, flatten(y), {5, 5}, {1, 2});
  });
  const Tensor fives = tensor({5, 5}), ones = tensor({1, 2});
  CHECK(ctc_loss(lp, y, fives, ones).item() == ctc_loss(lp, y, {5, 5}, {1, 2}).item());
  refused("lengths must be i64 (N), got f32 (2,)",
          [&] { return ctc_loss(lp, y, fives.to(DType::f32), ones); });
  refused("1 input lengths", [&] { return ctc_loss(lp, y, {5}, {1, 2}); });
  refused("blank 3", [&] { return ctc_loss(lp, y, {5, 5}, {1, 2}, {.blank = 3}); });
  refused("i64", [&] { return ctc_loss(lp, y.to(DType::f32), {5, 5}, {1, 2}); });
  CHECK(ctc_loss(zeros({4, 0, 3}), zeros({0, 2}, DType::i64), {}, {}, {.reduction = kSum}).item() ==
        0);
}

TEST_CASE("losses.h: degenerate inputs") {
  // Probabilities of 0 and 1 have finite losses and gradients.
  Tensor p = tensor({0, 1, 1, 0}, {4}, DType::f64).set_requires_grad();
  Tensor y = tensor({0, 1, 0, 1}, {4}, DType::f64).set_requires_grad();
  Tensor losses = binary_cross_entropy(p, y, {.reduction = kNone});
  CHECK(losses.to_vector<double>() == std::vector<double>{0, 0, 100, 100});
  for (const Tensor& g : grad({sum(losses)}, {p, y})) CHECK(all(isfinite(g)).item<bool>());
  // Equal rows, all zeros, and a distance equal to the margin.
  Tensor same = ones({2, 3}, DType::f64).set_requires_grad();
  Tensor none = zeros({2, 3}, DType::f64).set_requires_grad();
  for (const Tensor& loss :
       {triplet_margin_loss(same, same, same), sum(cosine_similarity(none, none)),
        sum(pairwise_distance(same, same, {.eps = 0})),
        cosine_embedding_loss(none, same, tensor({1, -1}, {2}))}) {
    CHECK(std::isfinite(loss.item()));
    for (const Tensor& g : grad({loss}, {same, none}, {.allow_unused = true}))
      if (g.defined()) CHECK(all(isfinite(g)).item<bool>());
  }
  Tensor far = tensor({200, -200}, {2}).set_requires_grad();
  Tensor focal = sigmoid_focal_loss(far, tensor({0, 1}, {2}), {.reduction = kSum});
  CHECK(focal.item() == doctest::Approx(200 * .75 + 200 * .25));
  CHECK(all(isfinite(grad({focal}, {far})[0])).item<bool>());
  CHECK(huber_loss(zeros({0}), zeros({0}), {.reduction = kSum}).item() == 0);
  CHECK(std::isnan(huber_loss(full({1}, kInf), full({1}, kInf)).item()));
}

TEST_CASE("losses.h: errors name op, rule and values") {
  Tensor a = zeros({3, 4}), b = zeros({3});
  auto refused = [&](const char* text, const auto& fn) {
    CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains(text), Error);
  };
  refused("huber_loss: shapes (3, 4) and (3,) differ", [&] { return huber_loss(a, b); });
  refused("huber_loss: delta must be positive, got 0",
          [&] { return huber_loss(a, a, {.delta = 0}); });
  refused("probabilities in [0, 1], it goes from 0 to 1.5; use bce_with_logits", [&] {
    return binary_cross_entropy(tensor({0, 1.5}, {2}), zeros({2}));
  });
  refused("probabilities in [0, 1]", [&] {
    return binary_cross_entropy(tensor({NAN, .5}, {2}), zeros({2}));
  });
  refused("var of shape (4,) does not fit an input of shape (3, 4)",
          [&] { return gaussian_nll_loss(a, a, ones({4})); });
  refused("a variance is negative: -1", [&] { return gaussian_nll_loss(a, a, -1); });
  refused("gamma must not be negative", [&] { return sigmoid_focal_loss(a, a, {.gamma = -1}); });
  refused("cosine_similarity: ", [&] { return cosine_similarity(b, b, 1); });
  refused("cosine_embedding_loss: inputs (N, D) need a target (N)",
          [&] { return cosine_embedding_loss(a, a, zeros({2})); });
  refused("margin must be positive", [&] { return triplet_margin_loss(a, a, a, {.margin = 0}); });
}

}  // namespace
}  // namespace tern::ops_more_losses
