// The random generator: Philox against published words, moments of all distributions, and streams
// and fills that do not depend on the number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/base/philox.h"
#include "tern/core/base/rng.h"
#include "tern/tests/support/threads.h"

namespace tern::test_rng {

namespace {

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};

template <class T>
Moments moments(const std::vector<T>& x) {
  Moments m;
  const double n = static_cast<double>(x.size());
  for (T v : x) m.mean += v / n;
  for (T v : x) {
    double d = v - m.mean;
    m.variance += d * d / n;
    m.skew += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

/// fill(rng, x) gives the same numbers and the same state afterwards on any number of threads.
template <class T, class Fill>
void check_threads(Fill fill) {
  for (int64_t n : {1, 255, 256, 257, 20000, 100003})
    test::check_threads([&] {
      Rng rng(7);
      rng.next_u32();
      std::vector<T> x(n);
      fill(rng, x);
      return std::pair(x, rng.state());
    });
}

}  // namespace

// Known answers from Random123 (the file kat_vectors of its distribution).
TEST_CASE("rng: Philox 4x32-10 gives the published words") {
  using Words = std::array<uint32_t, 4>;
  CHECK(kernels::philox({0, 0, 0, 0}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(kernels::philox({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(kernels::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("rng: a group holds the blocks of its counters") {
  const uint64_t key = 0x123456789abcdef0, first = (uint64_t{1} << 32) - kernels::kPhiloxGroup;
  for (uint64_t start : {uint64_t{0}, first, first + kernels::kPhiloxGroup}) {
    kernels::PhiloxGroup group;
    kernels::philox_group(key, start, group);
    for (int b : {0, 1, 31, 63}) {
      uint64_t c = start + b;
      auto block =
          kernels::philox({static_cast<uint32_t>(c), static_cast<uint32_t>(c >> 32), 0, 0}, key);
      for (int w = 0; w < 4; ++w) CHECK(group.words[w][b] == block[w]);
    }
  }
}

TEST_CASE("rng: seeds, copies and states") {
  Rng a(1), b(1), c(2);
  CHECK(a == b);
  CHECK(a.next_u64() == b.next_u64());
  CHECK(a.next_u64() != c.next_u64());
  a.next_u32();  // in the middle of a block
  Rng copy = a, restored(a.state());
  std::vector<uint32_t> expected, from_copy, from_state;
  for (int i = 0; i < 10; ++i) expected.push_back(a.next_u32());
  for (int i = 0; i < 10; ++i) from_copy.push_back(copy.next_u32());
  for (int i = 0; i < 10; ++i) from_state.push_back(restored.next_u32());
  CHECK(from_copy == expected);
  CHECK(from_state == expected);
}

TEST_CASE("rng: streams depend only on the seed, splits never repeat") {
  Rng a(5), b(5);
  b.next_u64();
  CHECK(a.stream(3) == b.stream(3));
  CHECK(a.stream(3) == Rng(5).stream(3));
  std::set<uint64_t> first;
  for (uint64_t i = 0; i < 1000; ++i) first.insert(a.stream(i).next_u64());
  for (uint64_t i = 0; i < 1000; ++i) first.insert(a.split().next_u64());
  for (uint64_t i = 0; i < 1000; ++i) first.insert(Rng(i).next_u64());
  for (uint64_t i = 0; i < 1000; ++i) first.insert(a.next_u64());
  CHECK(first.size() == 4000);
}

TEST_CASE("rng: single draws have the right range and moments") {
  Rng rng(3);
  const int n = 100000;
  std::vector<double> u(n), z(n);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < n; ++i) {
    u[i] = rng.uniform();
    z[i] = rng.normal();
    ++counts.at(rng.below(7));
  }
  CHECK(*std::min_element(u.begin(), u.end()) >= 0);
  CHECK(*std::max_element(u.begin(), u.end()) < 1);
  // Bounds are five standard deviations of each estimate.
  CHECK(std::abs(moments(u).mean - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(moments(z).mean) < 5 * std::sqrt(1.0 / n));
  CHECK(std::abs(moments(z).variance - 1) < 5 * std::sqrt(2.0 / n));
  for (int c : counts) CHECK(std::abs(c - n / 7.0) < 5 * std::sqrt(n * 6.0 / 49));
  CHECK(rng.below(1) == 0);
  CHECK(rng.below(std::numeric_limits<int64_t>::max()) >= 0);
  CHECK_THROWS_AS(rng.below(0), Error);
  for (int i = 0; i < 100; ++i) CHECK(std::abs(rng.uniform(-2, 3) - 0.5) <= 2.5);
}

TEST_CASE_TEMPLATE("rng: fills have the right moments", T, float, double) {
  const double n = 1 << 20;
  std::vector<T> u(1 << 20), z(1 << 20);
  Rng rng(11);
  rng.fill_uniform(u.data(), u.size(), -1, 3);
  rng.fill_normal(z.data(), z.size());
  auto [lowest, highest] = std::minmax_element(u.begin(), u.end());
  CHECK(*lowest >= T(-1));
  CHECK(*highest < T(3));
  CHECK(std::abs(moments(u).mean - 1) < 5 * std::sqrt(16 / 12.0 / n));
  CHECK(std::abs(moments(u).variance - 16 / 12.0) < 5 * std::sqrt(16 * 16 / 180.0 / n));
  Moments m = moments(z);
  CHECK(std::abs(m.mean) < 5 * std::sqrt(1 / n));
  CHECK(std::abs(m.variance - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(m.skew) < 5 * std::sqrt(6 / n));
  CHECK(std::abs(m.kurtosis - 3) < 5 * std::sqrt(24 / n));
  // Neighbours within and across the halves of a pair are uncorrelated.
  for (size_t lag : {1, 2, 64, 128, 192, 256}) {
    double sum = 0;
    for (size_t i = lag; i < z.size(); ++i) sum += z[i] * z[i - lag];
    CHECK(std::abs(sum / n) < 5 * std::sqrt(1 / n));
  }
  // Kolmogorov-Smirnov test of normality: 2.2 / sqrt(n) is exceeded with probability 1e-4.
  std::sort(z.begin(), z.end());
  double distance = 0;
  for (size_t i = 0; i < z.size(); ++i)
    distance =
        std::max(distance, std::abs(0.5 * std::erfc(-z[i] / std::sqrt(2.0)) - (i + 0.5) / n));
  CHECK(distance < 2.2 / std::sqrt(n));
  std::vector<T> shifted(1 << 16);
  rng.fill_normal(shifted.data(), shifted.size(), 10, 0.5);
  CHECK(std::abs(moments(shifted).mean - 10) < 5 * 0.5 / 256);
  CHECK(std::abs(moments(shifted).variance - 0.25) < 5 * 0.25 * std::sqrt(2.0 / 65536));
}

TEST_CASE("rng: a Bernoulli mask has the requested share of ones") {
  const int64_t n = 1 << 20;
  std::vector<uint8_t> mask(n);
  Rng rng(13);
  for (double p : {0.0, 1e-3, 0.1, 0.5, 0.9, 1.0}) {
    rng.fill_bernoulli(mask.data(), n, p);
    CHECK(*std::max_element(mask.begin(), mask.end()) <= 1);
    double ones = 0;
    for (uint8_t m : mask) ones += m;
    CHECK(std::abs(ones - p * n) <= 5 * std::sqrt(p * (1 - p) * n));
  }
  CHECK_THROWS_AS(rng.fill_bernoulli(mask.data(), n, 1.5), Error);
  CHECK_THROWS_AS(rng.fill_bernoulli(mask.data(), n, std::nan("")), Error);
}

TEST_CASE("rng: fills are the same for any number of threads") {
  check_threads<float>([](Rng& r, auto& x) { r.fill_uniform(x.data(), x.size(), -1, 1); });
  check_threads<double>([](Rng& r, auto& x) { r.fill_uniform(x.data(), x.size(), -1, 1); });
  check_threads<float>([](Rng& r, auto& x) { r.fill_normal(x.data(), x.size()); });
  check_threads<double>([](Rng& r, auto& x) { r.fill_normal(x.data(), x.size()); });
  check_threads<uint8_t>([](Rng& r, auto& x) { r.fill_bernoulli(x.data(), x.size(), 0.3); });
}

TEST_CASE("rng: fills do not overlap each other or single draws") {
  Rng rng(17);
  std::vector<float> x(1000), y(1000);
  rng.next_u32();
  rng.fill_uniform(x.data(), 1000);
  Rng::State after = rng.state();
  rng.fill_uniform(y.data(), 1000);
  CHECK(std::mismatch(x.begin(), x.end(), y.begin()).first == x.begin());
  CHECK(after[1] % (4 * kernels::kPhiloxGroup) == 0);
  CHECK(rng.state()[1] > after[1]);
  rng.fill_uniform(y.data(), 0);
}

TEST_CASE("rng: uniform numbers are the same at every vector level") {
  std::vector<float> expected(1000), x(1000);
  Rng(19).fill_uniform(expected.data(), 1000);
  for (VectorLevel level : {VectorLevel::kBaseline, VectorLevel::kAvx2, VectorLevel::kAvx512}) {
    VectorLevelScope scope(level);
    Rng(19).fill_uniform(x.data(), 1000);
    CHECK(x == expected);
  }
}

}  // namespace tern::test_rng
