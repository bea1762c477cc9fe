// Quantiles whose ranks need more digits than f32 has, and quantiles of infinite elements.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_quantile {

namespace {

TEST_CASE("quantile of more elements than f32 can count") {
  const int64_t n = 5000003, middle = 500000;
  const Tensor x = (middle - arange(0, n)).to(DType::f32);  // exact, and 0 near the quantile 0.9
  auto element = [=](double rank) { return rank - static_cast<double>(n - 1 - middle); };
  for (double q : {0.9, 0.9000003, 0.1}) {
    CAPTURE(q);
    const double rank = q * static_cast<double>(n - 1), below = std::floor(rank);
    auto at = [&](QuantileInterpolation i) { return quantile(x, q, {.interpolation = i}).item(); };
    CHECK(at(QuantileInterpolation::lower) == element(below));
    CHECK(at(QuantileInterpolation::higher) == element(std::ceil(rank)));
    CHECK(at(QuantileInterpolation::nearest) == element(std::nearbyint(rank)));
    const double want = element(rank), rounding = 0x1p-23 * (1 + std::abs(want));
    CHECK(std::abs(at(QuantileInterpolation::linear) - want) <= rounding);
  }
  // A vector of quantiles is used with its rounded values, and has a gradient of its own.
  const Tensor q = tensor({0.9, 0.1}, {2}).set_requires_grad();
  const Tensor y = quantile(x, q);
  for (size_t i = 0; i < 2; ++i) {
    const double want = element(q.to_vector<double>()[i] * static_cast<double>(n - 1));
    CHECK(std::abs(y.to_vector<double>()[i] - want) <= 0x1p-23 * (1 + std::abs(want)));
  }
  CHECK(grad({sum(y)}, {q})[0].to_vector<double>() == std::vector<double>{5000002, 5000002});
}

TEST_CASE("quantiles in f32 that fall on an element") {
  const Tensor x = arange(0, 20001).to(DType::f32), q = tensor({0.9, 0.7, 0.1, 0.3}, {4});
  for (auto i :
       {QuantileInterpolation::lower, QuantileInterpolation::higher, QuantileInterpolation::nearest,
        QuantileInterpolation::midpoint, QuantileInterpolation::linear})
    CHECK(quantile(x, q, {.interpolation = i}).to_vector<double>() ==
          std::vector<double>{18000, 14000, 2000, 6000});  // as PyTorch
  // Slightly different quantiles fall between elements.
  for (const Tensor& t : {q * (1 + 0x1p-21), q * (1 - 0x1p-21)}) {
    const auto got = quantile(x, t).to_vector<double>(), want = t.to_vector<double>();
    for (size_t k = 0; k < want.size(); ++k)
      CHECK(std::abs(got[k] - 20000 * want[k]) <= 0x1p-23 * got[k]);
  }
  const auto lower = quantile(x, 0.9, {.interpolation = QuantileInterpolation::lower}).item();
  CHECK(lower == 18000);
}

TEST_CASE("quantile of f32: the weight between two elements has all its digits") {
  // x = 0, 1, ..., so the quantile is its rank, and the gradient of an element is its weight.
  for (int64_t n : {2500, 16384, 16385}) {
    for (double q : {0.31415927, 0.7654321, 0.1}) {
      CAPTURE(n);
      CAPTURE(q);
      for (bool vector : {false, true}) {
        const Tensor x = arange(0, n).to(DType::f32).set_requires_grad();
        const Tensor list = tensor({q}, {1});
        const double number = vector ? list.to_vector<double>()[0] : q;
        const double rank = number * static_cast<double>(n - 1), above = rank - std::floor(rank);
        const auto g = grad({sum(vector ? quantile(x, list) : quantile(x, q))}, {x})[0];
        const auto at = static_cast<int64_t>(std::ceil(rank));
        CHECK(std::abs(select(g, 0, at).item() - above) <= 0x1p-24);
        CHECK(std::abs(select(g, 0, at - 1).item() - (1 - above)) <= 0x1p-23);
      }
    }
  }
}

TEST_CASE("quantiles at and between infinite elements") {
  using test::kInf;
  for (DType type : {DType::f32, DType::f64}) {
    auto at = [type](const std::vector<double>& x, double q) {
      return quantile(tensor(x).to(type), q).item();
    };
    CHECK(at({1, 2, kInf}, 1) == kInf);
    CHECK(at({1, 2, kInf}, 0.5) == 2);
    CHECK(at({-kInf, 1}, 0) == -kInf);
    CHECK(at({1, kInf, kInf}, 0.75) == kInf);
    CHECK(at({-kInf, -kInf, 3}, 0.25) == -kInf);
    CHECK(std::isnan(at({-kInf, kInf}, 0.5)));
  }
  Tensor x = tensor({1.0, 2.0, kInf}, {3}).set_requires_grad();
  Tensor q = tensor({1.0}, {1}).set_requires_grad();
  const auto g = grad({sum(quantile(x, q))}, {x, q});
  CHECK(g[0].to_vector<double>() == std::vector<double>{0, 0, 1});
  CHECK(g[1].to_vector<double>() == std::vector<double>{0});
}

}  // namespace

}  // namespace tern::test_quantile
