// Dataset: combinators, lazy evaluation and shuffling, on short lists of numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/loading/dataset.h"

namespace tern::test_dataset {
using namespace tern::datasets;

namespace {

/// 0, 10, 20, ...
Dataset<int> tens(int64_t n) {
  return {n, [](int64_t i) { return static_cast<int>(10 * i); }};
}

template <class T>
std::vector<T> all(const Dataset<T>& data) {
  std::vector<T> out;
  for (int64_t i = 0; i < data.size(); ++i) out.push_back(data.get(i));
  return out;
}

using Ints = std::vector<int>;

}  // namespace

TEST_CASE("dataset: made from a function or from values") {
  CHECK(all(tens(4)) == Ints{0, 10, 20, 30});
  CHECK(all(Dataset<int>(Ints{5, 6})) == Ints{5, 6});
  CHECK(all(tens(0)).empty());
  CHECK_THROWS_WITH_AS(tens(4).get(4), "Dataset::get: there is no sample 4; there are 4", Error);
  CHECK_THROWS_AS(tens(4).get(-1), Error);
  CHECK_THROWS_AS(tens(-1), Error);
}

TEST_CASE("dataset: map, subset, limit, concat, batch") {
  CHECK(all(tens(3).map([](int x) { return std::to_string(x); })) ==
        std::vector<std::string>{"0", "10", "20"});
  CHECK(all(tens(5).subset({4, 0, 4})) == Ints{40, 0, 40});
  CHECK_THROWS_WITH_AS(tens(5).subset({4, 5}), "Dataset::subset: there is no sample 5; there are 5",
                       Error);
  CHECK(all(tens(5).limit(2)) == Ints{0, 10});
  CHECK(tens(5).limit(9).size() == 5);
  CHECK_THROWS_AS(tens(5).limit(2).get(2), Error);
  CHECK(all(tens(2).concat(tens(3))) == Ints{0, 10, 0, 10, 20});
  CHECK(all(tens(5).batch(2)) == std::vector<Ints>{{0, 10}, {20, 30}, {40}});
  CHECK(all(tens(5).batch(2, true)) == std::vector<Ints>{{0, 10}, {20, 30}});
  CHECK(all(tens(4).batch(2)) == std::vector<Ints>{{0, 10}, {20, 30}});
  CHECK_THROWS_AS(tens(4).batch(0), Error);
  CHECK(all(tens(4).limit(3).map([](int x) { return x + 1; }).batch(2).limit(1)) ==
        std::vector<Ints>{{1, 11}});
}

TEST_CASE("dataset: sizes near the largest integer") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  CHECK(all(tens(5).batch(kMost)) == std::vector<Ints>{{0, 10, 20, 30, 40}});
  CHECK(all(tens(5).batch(kMost, true)).empty());
  const Dataset<int64_t> numbers(kMost, [](int64_t i) { return i; });
  const auto pairs = numbers.batch(2);
  REQUIRE(pairs.size() == kMost / 2 + 1);
  CHECK(pairs.get(kMost / 2 - 1) == std::vector<int64_t>{kMost - 3, kMost - 2});
  CHECK(pairs.get(kMost / 2) == std::vector<int64_t>{kMost - 1});
  CHECK(numbers.limit(kMost - 1).concat(numbers.limit(1)).get(kMost - 1) == 0);
  CHECK_THROWS_WITH_AS(numbers.concat(numbers.limit(1)), doctest::Contains("are too many"), Error);
}

TEST_CASE("dataset: a sample is computed only when it is requested") {
  int made = 0;
  Dataset<int> counted(1000, [&](int64_t i) {
    ++made;
    return static_cast<int>(i);
  });
  auto data = counted.map([](int x) { return x; }).shuffle(1).concat(counted).limit(1500).batch(4);
  CHECK(made == 0);
  data.get(2);
  CHECK(made == 4);
}

TEST_CASE("dataset: shuffle gives each sample once, in an order that the seed decides") {
  Ints a = all(tens(100).shuffle(1)), b = all(tens(100).shuffle(1)), c = all(tens(100).shuffle(2));
  CHECK(a == b);
  CHECK(a != c);
  CHECK(a != all(tens(100)));
  std::sort(a.begin(), a.end());
  CHECK(a == all(tens(100)));
}

TEST_CASE("dataset: all permutations are equally likely") {
  std::vector<int> count(6);
  const int n = 6000;
  for (uint64_t seed = 0; seed < n; ++seed) {
    auto p = permutation(3, Rng(seed));
    ++count[2 * p[0] + (p[1] > p[2])];
  }
  for (int c : count) CHECK(std::abs(c - n / 6) < 5 * 29);  // sigma = sqrt(n * 1/6 * 5/6) = 28.9
  CHECK(permutation(0, Rng(1)).empty());
}

}  // namespace tern::test_dataset
