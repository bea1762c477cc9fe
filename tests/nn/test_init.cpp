// Initial values of weights: their moments and bounds, fans and gains, orthogonality, and whitening
// filters against the definition.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/convolution/conv.h"
#include "tern/core/ops/ops.h"
#include "tern/nn/init.h"
#include "tern/tests/support/threads.h"

namespace tern::test_init {
namespace init = tern::nn::init;

namespace {

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments(const Tensor& t) {
  auto v = t.to_vector<double>();
  Moments m{0, 0, v[0], v[0]};
  for (double x : v) {
    m.mean += x;
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
  }
  m.mean /= static_cast<double>(v.size());
  for (double x : v) m.std += (x - m.mean) * (x - m.mean);
  m.std = std::sqrt(m.std / static_cast<double>(v.size()));
  return m;
}

constexpr int64_t kRows = 200, kColumns = 300;

// The moments of a (200, 300) tensor that fn fills. For 60,000 numbers of deviation s the mean is
// within 5 s / sqrt(60000) = 0.0204 s, and the deviation within about 2 %.
Moments filled(auto fn) {
  Rng rng(3);
  Tensor t = empty({kRows, kColumns});
  fn(t, rng);
  return moments(t);
}

void check_uniform(const Moments& m, double bound) {
  CHECK(m.low >= -bound);
  CHECK(m.high <= bound);
  CHECK(m.high > 0.99 * bound);
  CHECK(m.low < -0.99 * bound);
  CHECK(std::abs(m.mean) < 0.0204 * bound / std::sqrt(3.0));
  CHECK(m.std == doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.02));
}

void check_normal(const Moments& m, double mean, double std) {
  CHECK(std::abs(m.mean - mean) < 0.0204 * std);
  CHECK(m.std == doctest::Approx(std).epsilon(0.02));
  CHECK(m.high > mean + 3 * std);
}

}  // namespace

TEST_CASE("init: constant, uniform, normal") {
  Moments c = filled([](auto& t, auto&) { init::constant(t, 3); });
  CHECK(c.low == 3);
  CHECK(c.high == 3);
  check_uniform(filled([](auto& t, auto& rng) { init::uniform(t, -0.2, 0.2, rng); }), 0.2);
  check_normal(filled([](auto& t, auto& rng) { init::normal(t, 1, 0.5, rng); }), 1, 0.5);
}

TEST_CASE("init: fans of matrices and convolutions") {
  CHECK(init::fans({5, 3}).in == 3);
  CHECK(init::fans({5, 3}).out == 5);
  CHECK(init::fans({5, 3, 2, 4}).in == 24);
  CHECK(init::fans({5, 3, 2, 4}).out == 40);
  CHECK_THROWS_AS(init::fans({5}), Error);
}

TEST_CASE("init: xavier and kaiming have the bounds and deviations of the papers") {
  check_uniform(filled([](auto& t, auto& rng) { init::xavier_uniform(t, rng, 2); }),
                2 * std::sqrt(6.0 / (kRows + kColumns)));
  check_normal(filled([](auto& t, auto& rng) { init::xavier_normal(t, rng); }), 0,
               std::sqrt(2.0 / (kRows + kColumns)));
  // a = sqrt(5), the default of torch's Linear, is U(±1/sqrt(fan_in)).
  check_uniform(
      filled([](auto& t, auto& rng) { init::kaiming_uniform(t, rng, {.a = std::sqrt(5.0)}); }),
      1 / std::sqrt(static_cast<double>(kColumns)));
  check_normal(filled([](auto& t, auto& rng) {
                 init::kaiming_normal(
                     t, rng, {.fan = init::Fan::out, .nonlinearity = init::Nonlinearity::relu});
               }),
               0, std::sqrt(2.0 / kRows));
}

TEST_CASE("init: gains equal torch.nn.init.calculate_gain's") {
  using init::Nonlinearity;
  CHECK(init::gain(Nonlinearity::linear) == 1);
  CHECK(init::gain(Nonlinearity::sigmoid) == 1);
  CHECK(init::gain(Nonlinearity::tanh) == doctest::Approx(5.0 / 3));
  CHECK(init::gain(Nonlinearity::relu) == doctest::Approx(std::sqrt(2.0)));
  CHECK(init::gain(Nonlinearity::leaky_relu, 0.5) == doctest::Approx(std::sqrt(2 / 1.25)));
  CHECK(init::gain(Nonlinearity::selu) == 0.75);
}

TEST_CASE("init: truncated normal stays inside and keeps its shape") {
  Moments m = filled([](auto& t, auto& rng) {
    init::trunc_normal(t, rng, {.std = 0.02, .low = -0.02, .high = 0.04});
  });
  CHECK(m.low >= -0.02f);
  CHECK(m.high <= 0.04f);
  // The standard normal in [-1, 2] has mean (phi(1) - phi(2)) / Z = 0.2296, std 0.7210.
  CHECK(m.mean == doctest::Approx(0.02 * 0.22964).epsilon(0.03));
  CHECK(m.std == doctest::Approx(0.02 * 0.72095).epsilon(0.02));
  Rng rng(0);
  Tensor t = empty({3});
  CHECK_THROWS_AS(init::trunc_normal(t, rng, {.low = 8, .high = 9}), Error);
  CHECK_THROWS_WITH_AS(init::trunc_normal(t, rng, {.std = -1, .low = 2, .high = -2}),
                       "trunc_normal: the standard deviation must not be negative, got -1", Error);
  CHECK_THROWS_WITH_AS(init::trunc_normal(t, rng, {.low = 2, .high = -2}),
                       "trunc_normal: the bounds [2, -2] must rise", Error);
}

TEST_CASE("init: the same weights from a seed on any number of threads") {
  test::check_threads({3, 16}, [] {
    Rng rng(7);
    std::vector<float> all;
    for (auto fill : {+[](const Tensor&w, Rng&r) { init::uniform(w, -1, 1, r); },
                      +[](const Tensor&w, Rng&r) { init::normal(w, 0, 1, r); },
                      +[](const Tensor&w, Rng&r) { init::trunc_normal(w, r, {}); },
                      +[](const Tensor&w, Rng&r) { init::orthogonal(w, r); }}) {
      Tensor w = empty({130, 150});
      fill(w, rng);
      const std::vector<float> values = w.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  });
}

TEST_CASE("init: orthogonal rows or columns") {
  for (const Shape& shape : {Shape{5, 9}, Shape{9, 5}, Shape{6, 6}, Shape{4, 3, 2}}) {
    Rng rng(2);
    Tensor t = empty(shape, DType::f64);
    init::orthogonal(t, rng, 3);
    auto v = t.to_vector<double>();
    int64_t m = shape[0], n = t.numel() / m;
    auto at = [&](int64_t i, int64_t j) { return v[static_cast<size_t>(i * n + j)]; };
    for (int64_t a = 0; a < std::min(m, n); ++a) {
      for (int64_t b = 0; b < std::min(m, n); ++b) {
        double dot = 0;
        for (int64_t k = 0; k < std::max(m, n); ++k)
          dot += m <= n ? at(a, k) * at(b, k) : at(k, a) * at(k, b);
        CHECK(dot == doctest::Approx(a == b ? 9 : 0).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("init: dirac copies the input") {
  Rng rng(1);
  const Tensor x = randn({2, 4, 5, 6}, rng);
  for (int64_t groups : {1, 2}) {
    Tensor w = full({6, 4 / groups, 3, 5}, 7);
    init::dirac(w, groups);
    const Tensor y = conv2d(x, w, {}, {.padding = {1, 2}, .groups = groups});
    for (int64_t o = 0; o < 6; ++o) {
      const int64_t within = o % (6 / groups), in = o / (6 / groups) * (4 / groups) + within;
      const Tensor want = within < 4 / groups ? select(x, 1, in) : zeros({2, 5, 6});
      CHECK(select(y, 1, o).to_vector<float>() == want.to_vector<float>());
    }
  }
  Tensor one = full({2, 2, 3}, 7);
  init::dirac(one);
  CHECK(one.to_vector<float>() == std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  Tensor part = full({3, 2, 1}, 7);
  init::dirac(narrow(part, 0, 0, 2));
  CHECK(part.to_vector<float>() == std::vector<float>{1, 0, 0, 1, 7, 7});
  CHECK_THROWS_AS(init::dirac(zeros({2, 2})), Error);
  CHECK_THROWS_AS(init::dirac(zeros({3, 2, 3}), 2), Error);
}

TEST_CASE("init: whitening in a ShapeOnlyScope") {
  const ShapeOnlyScope no_memory;
  const Tensor w = empty({24, 2, 2, 3});
  init::whitening(w, empty({70, 2, 4, 5}));  // all zeros, and no error
  CHECK(no_memory.live_bytes() > 0);
}

TEST_CASE("init: whitening filters match the definition") {
  Rng rng(2);
  const Tensor images = cumsum(randn({70, 2, 4, 5}, rng), 3);  // neighbouring pixels are similar
  const Tensor w = zeros({24, 2, 2, 3});
  init::whitening(w, images, 0);
  // E[y y^T] of the first filters, patch by patch.
  std::vector<double> moments(12 * 12);
  for (int64_t b = 0; b < 70; ++b)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        const Tensor patch = slice(images, {b, {}, {i, i + 2}, {j, j + 3}});
        const auto y = sum(narrow(w, 0, 0, 12) * patch, {1, 2, 3}).to_vector<double>();
        for (size_t k = 0; k < 144; ++k) moments[k] += y[k / 12] * y[k % 12] / (70 * 9);
      }
  for (size_t k = 0; k < 144; ++k)
    CHECK(moments[k] == doctest::Approx(k / 12 == k % 12).epsilon(1e-4));
  const auto v = w.to_vector<float>();
  for (size_t k = 0; k < 144; ++k) CHECK(v[144 + k] == -v[k]);
  // The largest eigenvalue comes first, with the shortest filter.
  double before = 0;
  for (int64_t k = 0; k < 12; ++k) {
    const double length = sum(square(select(w, 0, k))).item();
    CHECK(length > before);
    before = length;
  }
  const Tensor soft = zeros({24, 2, 2, 3});
  init::whitening(soft, images, 0.5);
  for (int64_t k = 0; k < 12; ++k) {  // 1 / (value + 0.5), where 1 / value is the squared length
    const double value = 1 / sum(square(select(w, 0, k))).item();
    CHECK(sum(square(select(soft, 0, k))).item() == doctest::Approx(1 / (value + 0.5)));
  }
  CHECK_THROWS_WITH_AS(init::whitening(zeros({23, 2, 2, 3}), images),
                       doctest::Contains("(23, 2, 2, 3)"), Error);
  CHECK_THROWS_WITH_AS(init::whitening(w, zeros({70, 3, 4, 5})), doctest::Contains("(B, 2, H, W)"),
                       Error);
  CHECK_THROWS_WITH_AS(init::whitening(w, ones({1, 2, 4, 5}), 0),
                       doctest::Contains("do not vary in some direction"), Error);
}

}  // namespace tern::test_init
