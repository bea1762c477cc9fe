// Loops compiled for each vector level: the same results at every level and length, NaN in maxima
// and minima, and no fused multiply-adds.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"

namespace tern::test_simd {

namespace {
constexpr VectorLevel kLevels[] = {VectorLevel::kBaseline, VectorLevel::kAvx2,
                                   VectorLevel::kAvx512};

// Small integers: their sums are exact in any order, so all levels must give the same bits.
std::vector<float> integers(int64_t n) {
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 37 + 11) % 101 - 50);
  return x;
}
}  // namespace

TEST_CASE("simd: maps and reductions are the same at every level and length") {
  for (VectorLevel level : kLevels) {
    VectorLevelScope scope(level);
    for (int64_t n : {0, 1, 3, 15, 16, 17, 31, 32, 33, 64, 100, 1000, 1027}) {
      std::vector<float> x = integers(n), y(n);
      const float* px = x.data();
      float* py = y.data();
      simd([=] {
        for (int64_t i = 0; i < n; ++i) py[i] = px[i] > 0 ? px[i] * 2 : px[i];
      });
      double sum = 0;
      float most = -std::numeric_limits<float>::infinity(), least = -most;
      for (int64_t i = 0; i < n; ++i) {
        CHECK(y[i] == (x[i] > 0 ? x[i] * 2 : x[i]));
        sum += x[i];
        most = std::max(most, x[i]);
        least = std::min(least, x[i]);
      }
      CHECK(simd([=] { return kernels::sum_of<float>(px, n); }) == sum);
      CHECK(simd([=] { return kernels::sum_of<double>(px, n); }) == sum);
      CHECK(simd([=] { return kernels::max_of(px, n); }) == most);
      CHECK(simd([=] { return kernels::min_of(px, n); }) == least);
    }
  }
}

TEST_CASE("simd: max and min are NaN wherever a NaN stands") {
  for (VectorLevel level : kLevels) {
    VectorLevelScope scope(level);
    for (int64_t n : {1, 7, 32, 70})
      for (int64_t at = 0; at < n; ++at) {
        std::vector<double> x(n, 1.0);
        x[at] = std::numeric_limits<double>::quiet_NaN();
        const double* p = x.data();
        CHECK(std::isnan(simd([=] { return kernels::max_of(p, n); })));
        CHECK(std::isnan(simd([=] { return kernels::min_of(p, n); })));
      }
  }
}

// This program links only tern, like a user's program: the compiler flag comes from tern::core. The
// square of 1 + 2^-12 rounds to 1 + 2^-11; a fused multiply-add would keep the lost 2^-24.
TEST_CASE("simd: product and sum are rounded separately at every level") {
  constexpr int64_t kCount = 67;
  const std::vector<float> a(kCount, 1 + 0x1p-12f), b(kCount, -1 - 0x1p-11f);
  for (VectorLevel level : kLevels) {
    VectorLevelScope scope(level);
    std::vector<float> y(kCount, 7);
    simd([x = a.data(), shift = b.data(), to = y.data()] {
      for (int64_t i = 0; i < kCount; ++i) to[i] = x[i] * x[i] + shift[i];
    });
    CHECK(y == std::vector<float>(kCount, 0));
  }
}

}  // namespace tern::test_simd
