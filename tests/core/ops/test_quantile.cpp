// Quantiles of so many elements that f32 has no digits for their numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/statistics.h"
#include "tern/core/tape/autograd.h"

namespace tern::test_quantile {

namespace {

TEST_CASE("quantile of more elements than f32 can number") {
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
  // A vector of quantiles counts as what it holds, and has a gradient of its own.
  const Tensor q = tensor({0.9, 0.1}, {2}).set_requires_grad();
  const Tensor y = quantile(x, q);
  for (size_t i = 0; i < 2; ++i) {
    const double want = element(q.to_vector<double>()[i] * static_cast<double>(n - 1));
    CHECK(std::abs(y.to_vector<double>()[i] - want) <= 0x1p-23 * (1 + std::abs(want)));
  }
  CHECK(grad({sum(y)}, {q})[0].to_vector<double>() == std::vector<double>{5000002, 5000002});
}

}  // namespace

}  // namespace tern::test_quantile
