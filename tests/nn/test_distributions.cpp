// Distributions against numbers of torch.distributions (2.15, f64), against their definitions, and
// against frequencies of draws.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/distributions.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_distributions {
namespace {

using nn::Bernoulli;
using nn::Categorical;
using nn::kl_divergence;
using nn::Normal;
using Args = std::vector<Tensor>;
using Doubles = std::vector<double>;

using test::f64, test::kInf;

void check_numbers(const Tensor& got, const Shape& shape, const Doubles& want) {
  CHECK(got.shape() == shape);
  const Doubles v = got.to_vector<double>();
  REQUIRE(v.size() == want.size());
  for (size_t i = 0; i < v.size(); ++i)
    CHECK((v[i] == want[i] || std::abs(v[i] - want[i]) <= 1e-15 + 1e-14 * std::abs(want[i])));
}

void check_finite(const Tensor& x) {
  for (double v : x.to_vector<double>()) CHECK(std::isfinite(v));
}

void check_refused(const char* text, const std::function<void()>& fn) {
  CHECK_THROWS_WITH_AS(fn(), doctest::Contains(text), Error);
}

/// Checks first and second derivatives against central differences.
void check_gradients(const std::function<Tensor(const Args&)>& fn, const Args& at) {
  Args leaves;
  for (const Tensor& t : at) leaves.push_back(t.clone().set_requires_grad());
  CHECK_NOTHROW(gradcheck(fn, leaves));
  CHECK_NOTHROW(gradgradcheck(fn, leaves));
}

Tensor scores() { return f64({0.5, -1.25, 2, 3, 0, -0.75}, {2, 3}); }
Tensor other_scores() { return f64({1, 0.25, -2, 0, 0.5, 0.125}, {2, 3}); }
Tensor weights() { return f64({0.5, 1.5, 2}); }

TEST_CASE("categorical: PyTorch's numbers") {
  const Categorical p({.logits = scores()}), q({.logits = other_scores()}), r({.probs = weights()});
  check_numbers(p.log_prob(tensor({2, 1}, {2}, DType::i64)), {2},
                {-0.23262198310203264, -3.0707424999363266});
  check_numbers(p.log_prob(tensor({0, 1, 2}, {3, 1}, DType::i64)), {3, 2},
                {-1.7326219831020326, -0.070742499936326642, -3.4826219831020326,
                 -3.0707424999363266, -0.23262198310203264, -3.8207424999363266});
  check_numbers(p.entropy(), {2}, {0.59771416232411745, 0.29207082057318579});
  check_numbers(kl_divergence(p, q), {2}, {2.2228163136765815, 1.0122154120172293});
  check_numbers(kl_divergence(p, r), {2}, {0.34939737196036691, 1.7060338982067558});
  check_numbers(r.log_prob(arange(0, 3)), {3},
                {-2.0794415416798357, -0.98082925301172619, -0.69314718055994529});
  check_numbers(r.log_prob(scalar(1, DType::i64)), {}, {-0.98082925301172619});
  check_numbers(r.entropy(), {}, {0.97431475286934943});
  check_numbers(r.probs(), {3}, {0.125, 0.375, 0.5});
  CHECK(p.batch_shape() == Shape{2});
  CHECK(r.batch_shape() == Shape{});
  CHECK(p.classes() == 3);
}

TEST_CASE("bernoulli: PyTorch's numbers") {
  const Bernoulli b({.logits = f64({-2, 0.25, 3.5})}), c({.probs = f64({0.125, 0.5, 0.875})});
  for (DType type : {DType::f64, DType::i64, DType::u8}) {
    const Tensor x = tensor({1, 0, 1}, {3}, type);
    check_numbers(b.log_prob(x), {3},
                  {-2.1269280110429727, -0.82593941987884356, -0.029750418272620566});
    check_numbers(c.log_prob(x), {3},
                  {-2.0794415416798357, -0.69314718055994529, -0.13353139262452265});
  }
  check_numbers(b.entropy(), {3}, {0.36533385508720784, 0.68539529465739402, 0.13234322590236783});
  check_numbers(c.entropy(), {3}, {0.37677016125643692, 0.69314718055994529, 0.37677016125643681});
  check_numbers(kl_divergence(b, c), {3},
                {0.00015571329720266269, 0.0077518859025512352, 0.058227134032670415});
  check_numbers(kl_divergence(c, b), {3},
                {0.00015784978653572701, 0.0077922393188982753, 0.090480257016183757});
  CHECK(b.log_prob(ones({4, 1})).shape() == Shape{4, 3});
}

TEST_CASE("normal: PyTorch's numbers") {
  const Normal n(f64({0.5, -1, 3}), f64({0.5, 2}, {2, 1})), m(f64({1}, {}), f64({1.5}, {}));
  check_numbers(n.log_prob(f64({0, 1, 2.5})), {2, 3},
                {-0.72579135264472738, -8.2257913526447268, -0.72579135264472738,
                 -1.6433357137646181, -2.1120857137646181, -1.6433357137646181});
  check_numbers(n.entropy(), {2, 3},
                {0.72579135264472738, 0.72579135264472738, 0.72579135264472738, 2.1120857137646181,
                 2.1120857137646181, 2.1120857137646181});
  check_numbers(kl_divergence(n, m), {2, 3},
                {0.70972339977922094, 1.5430567331125542, 1.5430567331125542, 0.15676237199266352,
                 0.99009570532599678, 0.99009570532599678});
  CHECK(n.batch_shape() == Shape{2, 3});
  CHECK(n.log_prob(zeros({4, 1, 1}, DType::f64)).shape() == Shape{4, 2, 3});
}

TEST_CASE("distributions: gradients of every parameter in every layout") {
  const Tensor classes = tensor({2, 0, 1, 1}, {2, 2}, DType::i64);
  const Tensor bits = tensor({1, 0, 0, 1, 1, 0}, {2, 3}, DType::i64);
  const Tensor positive = exp(other_scores()) / 8, shares = sigmoid(scores());
  for (bool logits : {true, false}) {
    auto of = [=](const Tensor& x) {
      return logits ? nn::LogitsOrProbs{.logits = x} : nn::LogitsOrProbs{.probs = x};
    };
    const Tensor a = logits ? scores() : positive, b = logits ? other_scores() : shares;
    check_gradients([&](const Args& x) { return Categorical(of(x[0])).log_prob(classes); }, {a});
    check_gradients([&](const Args& x) { return Categorical(of(x[0])).entropy(); }, {a});
    check_gradients(
        [&](const Args& x) { return kl_divergence(Categorical(of(x[0])), Categorical(of(x[1]))); },
        {a, narrow(b, 0, 0, 1)});
    // One column expanded to three; the other operand is transposed.
    auto wide = [&](const Tensor& x) { return Bernoulli(of(expand(narrow(x, 1, 0, 1), {2, 3}))); };
    check_gradients([&](const Args& x) { return wide(x[0]).log_prob(bits); }, {b});
    check_gradients([&](const Args& x) { return wide(x[0]).entropy(); }, {b});
    check_gradients(
        [&](const Args& x) {
          return kl_divergence(wide(x[0]), Bernoulli(of(transpose(x[1], 0, 1))));
        },
        {b, transpose(logits ? scores() : shares, 0, 1)});
  }
  auto normal = [](const Tensor& mean, const Tensor& log_std) {
    return Normal(expand(mean, {2, 3}), exp(transpose(log_std, 0, 1)));
  };
  const Args at{f64({0.5, -1, 3}), transpose(0.3 * other_scores(), 0, 1), f64({0.25, 1, -0.5})};
  check_gradients([&](const Args& x) { return normal(x[0], x[1]).log_prob(x[2]); }, at);
  check_gradients([&](const Args& x) { return normal(x[0], x[1]).entropy() + 0 * x[0] + 0 * x[2]; },
                  at);
  check_gradients(
      [&](const Args& x) {
        return kl_divergence(normal(x[0], x[1]), Normal(x[2], exp(x[2] * x[2])));
      },
      at);
  check_gradients(
      [&](const Args& x) {
        Rng rng(4);
        return normal(x[0], x[1]).rsample(rng, {5}) + 0 * x[2];
      },
      at);
}

/// Checks fn(at) and the gradient of its sum, in f32 and f64.
void check_edge(const std::function<Tensor(const Tensor&)>& fn, const Tensor& at,
                const Doubles& want, const Doubles& want_gradient) {
  for (DType type : {DType::f32, DType::f64}) {
    Tensor x = at.to(type).clone().set_requires_grad(), y = fn(x);
    const Doubles v = y.to_vector<double>();
    const Doubles g = grad({sum(y)}, {x})[0].to_vector<double>();
    const double eps = type == DType::f32 ? 0x1p-22 : 0x1p-50;
    REQUIRE(v.size() == want.size());
    REQUIRE(g.size() == want_gradient.size());
    for (size_t i = 0; i < v.size(); ++i) {
      INFO("value ", i, ": ", v[i], ", want ", want[i]);
      CHECK((v[i] == want[i] || std::abs(v[i] - want[i]) <= eps * std::abs(want[i])));
    }
    for (size_t i = 0; i < g.size(); ++i) {
      INFO("gradient ", i, ": ", g[i], ", want ", want_gradient[i]);
      CHECK((g[i] == want_gradient[i] ||
             std::abs(g[i] - want_gradient[i]) <= eps * std::abs(want_gradient[i])));
    }
  }
}

TEST_CASE("distributions: impossible and certain events are exact") {
  const Tensor logits = f64({-kInf, -1e4, 1e4, kInf});
  auto bits = [](double b) { return full({4}, b); };
  auto log_prob = [&](double b) {
    return [=](const Tensor& x) { return Bernoulli({.logits = x}).log_prob(bits(b)); };
  };
  check_edge(log_prob(1), logits, {-kInf, -1e4, 0, 0}, {1, 1, 0, 0});
  check_edge(log_prob(0), logits, {0, 0, -1e4, -kInf}, {0, 0, -1, -1});
  auto entropy = [](const Tensor& x) { return Bernoulli({.logits = x}).entropy(); };
  check_edge(entropy, logits, {0, 0, 0, 0}, {0, 0, 0, 0});
  // Small probabilities still count, even if 1 - p rounds to 1. The few f32 operations are off by
  // an ulp or two each.
  for (double l : {-20.0, -3.0, 20.0, 60.0}) {
    const double rare = 1 / (1 + std::exp(std::abs(l)));
    const double want = std::log1p(std::exp(-std::abs(l))) + std::abs(l) * rare;
    CHECK(entropy(full({1}, l)).item() == doctest::Approx(want).epsilon(0x1p-20).scale(0));
  }
  auto from_self = [](const Tensor& x) {
    return kl_divergence(Bernoulli({.logits = x}), Bernoulli({.logits = x.detach()}));
  };
  check_edge(from_self, logits, {0, 0, 0, 0}, {0, 0, 0, 0});

  const Tensor probs = f64({0, 1, 0.5, 1e-30});
  auto of_probs = [&](double b) {
    return [=](const Tensor& x) { return Bernoulli({.probs = x}).log_prob(bits(b)); };
  };
  check_edge(of_probs(1), probs, {-kInf, 0, std::log(.5), std::log(1e-30)}, {kInf, 1, 2, 1e30});
  check_edge(of_probs(0), probs, {0, -kInf, std::log(.5), -1e-30}, {-1, -kInf, -2, -1});
  auto entropy_of_probs = [](const Tensor& x) { return Bernoulli({.probs = x}).entropy(); };
  // At 0 and 1 the term with log 0 adds 0, so that the finite term remains.
  Tensor y = entropy_of_probs(probs);
  check_numbers(narrow(y, 0, 0, 3), {3}, {0, 0, std::log(2)});
  Tensor leaf = probs.clone().set_requires_grad();
  check_finite(grad({sum(entropy_of_probs(leaf))}, {leaf})[0]);
  const Bernoulli half({.probs = full({4}, 0.5, DType::f64)}), edge({.probs = probs});
  check_numbers(narrow(kl_divergence(edge, half), 0, 0, 3), {3}, {std::log(2), std::log(2), 0});
  check_numbers(narrow(kl_divergence(half, edge), 0, 0, 3), {3}, {kInf, kInf, 0});

  // Rows with impossible classes, with one certain class, and with two logits of +inf.
  const Tensor rows = f64({0, -kInf, 0, 1e4, 0, -1e4, kInf, 3, -kInf, kInf, 1, kInf}, {4, 3});
  auto categorical = [](const Tensor& x) { return Categorical({.logits = x}).entropy(); };
  check_edge(categorical, rows, {std::log(2), 0, 0, std::log(2)}, Doubles(12, 0));
  auto first = [](const Tensor& x) {
    return Categorical({.logits = x}).log_prob(zeros({4}, DType::i64));
  };
  check_edge(first, rows, {-std::log(2), 0, 0, -std::log(2)},
             {.5, 0, -.5, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Categorical p({.logits = rows});
  check_numbers(kl_divergence(p, p), {4}, {0, 0, 0, 0});
  check_numbers(kl_divergence(Categorical({.logits = zeros({3}, DType::f64)}), p), {4},
                {kInf, 2e4 / 3 * 1.5 - std::log(3), kInf, kInf});
  // Weights that contain zeros.
  auto of_weights = [](const Tensor& x) {
    return Categorical({.probs = x}).log_prob(tensor({0, 2}, {2}, DType::i64));
  };
  check_edge(of_weights, f64({0, 1, 3, 2, 0, 2}, {2, 3}), {-kInf, -std::log(2)},
             {kInf, -.25, -.25, -.25, -.25, .25});
  Tensor w = f64({0, 1, 3}).set_requires_grad();
  check_finite(grad({Categorical({.probs = w}).entropy()}, {w})[0]);
}

TEST_CASE("distributions: draws have the distribution's frequencies and moments") {
  const int64_t n = 40000;
  const double draws = static_cast<double>(n);
  // Within six standard deviations of a frequency.
  auto near = [&](double got, double p) {
    CHECK(std::abs(got - p) <= 6 * std::sqrt(p * (1 - p) / draws));
  };
  Rng rng(1);
  const Categorical c({.logits = transpose(f64({0.5, 3, -kInf, 0, 2, -0.75}, {3, 2}), 0, 1)});
  const Tensor classes = c.sample(rng, {n});
  CHECK(classes.dtype() == DType::i64);
  CHECK(classes.shape() == Shape{n, 2});
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t k = 0; k < 3; ++k)
      near(mean(eq(select(classes, 1, row), k).to(DType::f64)).item(), c.probs()[row][k].item());

  const Bernoulli b({.probs = expand(f64({0, 0.25, 1}), {2, 3})});
  const Tensor bits = b.sample(rng, {n / 2});
  CHECK(bits.dtype() == DType::f64);
  CHECK(bits.shape() == Shape{n / 2, 2, 3});
  const Tensor share = mean(bits, {0, 1});
  CHECK(share[0].item() == 0);
  CHECK(share[2].item() == 1);
  near(share[1].item(), 0.25);

  const Normal normal(f64({-1, 2}), f64({0.5, 3}));
  const Tensor x = normal.sample(rng, {n});
  for (int64_t i = 0; i < 2; ++i) {
    const double s = normal.stddev()[i].item();
    CHECK(std::abs(mean(select(x, 1, i)).item() - normal.mean()[i].item()) <=
          6 * s / std::sqrt(draws));
    CHECK(std::abs(var(select(x, 1, i)).item() - s * s) <= 6 * s * s * std::sqrt(2 / draws));
  }
}

TEST_CASE("distributions: shapes of draws, gradients of rsample only, any number of threads") {
  Rng rng(2);
  const Tensor logits = scores().clone().set_requires_grad();
  const Categorical c({.logits = logits});
  CHECK(c.sample(rng).shape() == Shape{2});
  CHECK(c.sample(rng, {4, 5}).shape() == Shape{4, 5, 2});
  CHECK(c.sample(rng, {0}).shape() == Shape{0, 2});
  CHECK(Categorical({.probs = weights()}).sample(rng).shape() == Shape{});
  CHECK(Categorical({.logits = zeros({0, 3})}).sample(rng, {2}).shape() == Shape{2, 0});
  CHECK(Categorical({.logits = zeros({0, 3})}).entropy().shape() == Shape{0});
  const Bernoulli b({.logits = logits});
  CHECK(b.sample(rng, {7}).shape() == Shape{7, 2, 3});
  CHECK_FALSE(b.sample(rng).requires_grad());
  const Normal n(logits, ones({3}, DType::f64));
  CHECK_FALSE(n.sample(rng).requires_grad());
  CHECK(n.rsample(rng).requires_grad());
  Rng one(5), other(5);
  CHECK(n.sample(one, {3}).to_vector<double>() == n.rsample(other, {3}).to_vector<double>());
  CHECK(one == other);
  test::check_threads({3}, [&] {
    Rng fresh(6);
    return test::numbers_of(
        {c.sample(fresh, {50000}), b.sample(fresh, {50000}), n.sample(fresh, {50000})});
  });
}

TEST_CASE("distributions: work in a ShapeOnlyScope, where all numbers read as 0") {
  ShapeOnlyScope scope;
  Rng rng(3);
  const Tensor x = empty({1 << 20, 1000}).set_requires_grad();
  const Categorical c({.logits = x}), d({.probs = x});
  const Bernoulli b({.logits = x}), e({.probs = x});
  const Normal n(x, exp(x));
  const Tensor action = c.sample(rng);
  CHECK(action.shape() == Shape{1 << 20});
  backward(sum(c.log_prob(action) + d.entropy() + kl_divergence(c, d)));
  backward(sum(b.log_prob(e.sample(rng)) + e.entropy() + kl_divergence(b, e)));
  backward(sum(n.log_prob(n.rsample(rng))));
  CHECK(x.grad().shape() == x.shape());
}

template <class Parameters>
concept TakesUnnamed = requires(Tensor x) {
  Parameters{x};
};

// PyTorch's first parameter is probs, tern's would be logits.
TEST_CASE("distributions: logits and probs must be named") {
  CHECK_FALSE(TakesUnnamed<nn::LogitsOrProbs>);
  CHECK(TakesUnnamed<Tensor>);
}

TEST_CASE("distributions: invalid parameters and values are errors") {
  const Tensor x = zeros({2, 3}), nan = full({2}, std::nan(""));
  check_refused("Categorical: give either logits or probs", [] { Categorical({}); });
  check_refused("Bernoulli: give either logits or probs",
                [&] { Bernoulli({.logits = x, .probs = x}); });
  check_refused("Categorical: parameters are f32 or f64, got i64",
                [] { Categorical({.logits = arange(0, 3)}); });
  check_refused("Categorical: a parameter is NaN", [&] { Categorical({.logits = nan}); });
  check_refused("Categorical: needs parameters (..., K)",
                [] { Categorical({.logits = zeros({})}); });
  check_refused("K >= 1, got (2, 0)", [] { Categorical({.logits = zeros({2, 0})}); });
  check_refused("a row has no possible class; element 1 of shape (2,) is -inf", [] {
    Categorical({.logits = tensor({0, -kInf, -kInf, -kInf}, {2, 2})});
  });
  check_refused("a row has no possible class", [&] { Categorical({.probs = x}); });
  check_refused("finite and at least 0; element 2 of shape (3,) is -1", [] {
    Categorical({.probs = tensor({1, 2, -1}, {3})});
  });
  const Categorical c({.logits = x});
  check_refused("outside [0, K); element 0 of shape (2,) is -1", [&] {
    return c.log_prob(tensor({-1, 0}, {2}, DType::i64));
  });
  check_refused("outside [0, K)", [&] { return c.log_prob(tensor({0, 3}, {2}, DType::i64)); });
  check_refused("classes are i64, got f32", [&] { return c.log_prob(zeros({2})); });
  check_refused("Categorical::log_prob: shapes (3,) and (2,)",
                [&] { return c.log_prob(zeros({3}, DType::i64)); });
  check_refused("Bernoulli: a probability is outside [0, 1]; element 1 of shape (2,) is 1.5", [] {
    Bernoulli({.probs = tensor({1, 1.5}, {2})});
  });
  check_refused("Bernoulli::log_prob: a value is neither 0 nor 1",
                [&] { return Bernoulli({.logits = x}).log_prob(full({3}, 0.5)); });
  check_refused("Normal: a standard deviation is not above 0; element 0 of shape (3,) is 0",
                [] { Normal(zeros({3}), zeros({3})); });
  check_refused("not above 0", [&] { Normal(zeros({2}), nan); });
  check_refused("Normal: a parameter is NaN", [&] { Normal(nan, ones({2})); });
  check_refused("Normal::log_prob: x is f64", [&] {
    return Normal(x, ones({3})).log_prob(zeros({2, 3}, DType::f64));
  });
  check_refused("Normal: types differ", [] { Normal(zeros({2}), ones({2}, DType::f64)); });
  check_refused("Normal: shapes", [] { Normal(zeros({2}), ones({3})); });
  check_refused("kl_divergence: Categoricals of 3 and 2 classes", [&] {
    return kl_divergence(c, Categorical({.logits = zeros({2, 2})}));
  });
}

}  // namespace
}  // namespace tern::test_distributions
