// Samples drawn by weight: their frequencies, and that only seed and epoch decide the draws.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/loading/dataset_loader.h"
#include "tern/data/loading/weighted_sampler.h"

namespace tern::datasets::test_weighted_sampler {
namespace {

using Order = std::vector<int64_t>;

/// Checks that `count` is within six standard deviations of a binomial distribution. Chance breaks
/// this once in 500 million times, and the seed is fixed.
void check_binomial(int64_t count, int64_t trials, double p) {
  const double n = static_cast<double>(trials), deviation = std::sqrt(n * p * (1 - p));
  CHECK(std::abs(static_cast<double>(count) - n * p) <= 6 * deviation);
}

TEST_CASE("weighted sampler: with replacement each draw has the probabilities of the weights") {
  const std::vector<double> weights = {0, 3, 0, 0, 1, 0.5, 2.5, 0, 1, 0};
  constexpr int64_t kDraws = 200000;
  const Order order = weighted_sampler(weights, {.num_samples = kDraws})(Rng(5));
  REQUIRE(std::ssize(order) == kDraws);
  std::map<int64_t, int64_t> counts;
  std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
  for (size_t i = 0; i < order.size(); ++i) {
    ++counts[order[i]];
    if (i % 2 == 1) ++pairs[{order[i - 1], order[i]}];
  }
  for (int64_t i = 0; i < 10; ++i) {
    CAPTURE(i);
    const double p = weights[static_cast<size_t>(i)] / 8;
    check_binomial(counts[i], kDraws, p);
    for (int64_t j = 0; j < 10; ++j)  // draws do not depend on one another
      check_binomial(pairs[{i, j}], kDraws / 2, p * weights[static_cast<size_t>(j)] / 8);
  }
  CHECK(weighted_sampler(weights)(Rng(5)).size() == weights.size());
}

TEST_CASE("weighted sampler: without replacement each draw is among the remaining samples") {
  const std::vector<double> weights = {4, 0, 2, 1, 1};
  const Sampler sampler = weighted_sampler(weights, {.num_samples = 3, .replacement = false});
  constexpr int64_t kTrials = 60000;
  std::map<Order, int64_t> counts;
  for (int64_t t = 0; t < kTrials; ++t) {
    const Order order = sampler(Rng(7).stream(static_cast<uint64_t>(t)));
    REQUIRE(order.size() == 3);
    REQUIRE(std::set<int64_t>(order.begin(), order.end()).size() == 3);
    ++counts[order];
  }
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 5; ++j)
      for (int64_t k = 0; k < 5; ++k) {
        if (i == j || j == k || i == k) continue;
        const auto w = [&](int64_t x) { return weights[static_cast<size_t>(x)]; };
        const double p = w(i) / 8 * w(j) / (8 - w(i)) * w(k) / (8 - w(i) - w(j));
        check_binomial(counts[{i, j, k}], kTrials, p);
      }
  const Order all = weighted_sampler({1, 5, 2}, {.replacement = false})(Rng(1));
  CHECK(std::set<int64_t>(all.begin(), all.end()) == std::set<int64_t>{0, 1, 2});
}

TEST_CASE("weighted sampler: extreme weights, and a single weight above 0") {
  constexpr double kHuge = std::numeric_limits<double>::max();
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  for (const int64_t n : {1, 2, 3, 5, 8, 9, 1000}) {
    std::vector<double> weights(static_cast<size_t>(n));
    weights.back() = kTiny;
    const Order order = weighted_sampler(weights, {.num_samples = 20})(Rng(3));
    CHECK(order == Order(20, n - 1));
  }
  const Order huge = weighted_sampler({kHuge, kHuge, 0, kHuge}, {.num_samples = 3000})(Rng(3));
  for (int64_t i : {0, 1, 3}) check_binomial(std::count(huge.begin(), huge.end(), i), 3000, 1. / 3);
  CHECK(std::count(huge.begin(), huge.end(), 2) == 0);
}

TEST_CASE("weighted sampler: invalid weights and numbers of samples are refused") {
  const double nan = std::nan("");
  for (const std::vector<double>& wrong :
       std::vector<std::vector<double>>{{}, {0, 0}, {1, -1}, {1, nan}, {nan, 1}, {1, INFINITY}})
    CHECK_THROWS_AS(weighted_sampler(wrong), Error);
  CHECK_THROWS_AS(weighted_sampler({1}, {.num_samples = -1}), Error);
  CHECK_THROWS_WITH_AS(
      weighted_sampler({1, 0, 1}, {.replacement = false}),
      "weighted_sampler: 3 samples without replacement, but 2 of 3 weights are above 0", Error);
}

/// A loader of the numbers 0 to 9, drawn by weight.
auto loader(int workers, const WeightedSamplerOptions& o = {}, bool drop_last = false,
            uint64_t seed = 9, double first = 4) {
  const Dataset<int64_t> numbers(10, [](int64_t i) { return i; });
  return dataset_loader(numbers, [](Order batch) { return batch; },
                        {.batch = 4,
                         .drop_last = drop_last,
                         .seed = seed,
                         .workers = workers,
                         .sampler = weighted_sampler({first, 1, 1, 1, 1, 1, 1, 1, 1, 0}, o)});
}

std::vector<Order> epochs(Loader<Order>& l, int count) {
  std::vector<Order> all;
  for (int e = 0; e < count; ++e)
    for (Order& batch : l) all.push_back(batch);
  return all;
}

TEST_CASE("weighted sampler: the same batches for any number of workers and any position") {
  for (const bool replacement : {true, false}) {
    const WeightedSamplerOptions o{.num_samples = replacement ? 22 : 9, .replacement = replacement};
    Loader<Order> serial = loader(0, o);
    CHECK(serial.batches_per_epoch() == (replacement ? 6 : 3));
    const std::vector<Order> want = epochs(serial, 3);
    const size_t batches = want.size() / 3;
    CHECK(want[0] != want[batches]);  // another epoch, another order
    CHECK(want[batches - 1].size() == (replacement ? 2 : 1));
    for (int workers : {1, 2, 5}) {
      Loader<Order> l = loader(workers, o);
      CHECK(epochs(l, 3) == want);
    }
    for (size_t done = 0; done <= batches; ++done) {
      Loader<Order> first = loader(2, o), second = loader(1, o);
      for (size_t i = 0; i < done; ++i) first.next();
      second.load_state_dict(first.state_dict());
      const std::vector<Order> rest(want.begin() + static_cast<int64_t>(done), want.end());
      CHECK(epochs(second, 3) == rest);
    }
  }
}

// Else a rare class that is drawn often would be seen in one crop and one mirroring.
TEST_CASE("weighted sampler: a sample that is drawn again gets other random numbers") {
  struct Seen {
    int64_t sample;
    uint64_t random;
  };
  const auto seen = [](const LoaderOptions& o, int64_t blocks) {
    auto l = dataset_loader(
        Dataset<int64_t>(10, [](int64_t i) { return i; }),
        [](int64_t i, Rng& rng) {
          return Seen{i, rng.next_u64()};
        },
        [](std::vector<Seen> batch) { return batch; }, o);
    std::vector<Seen> all;
    const auto add = [&](const std::vector<Seen>& part) {
      all.insert(all.end(), part.begin(), part.end());
    };
    if (blocks == 1) {
      while (const auto batch = l.next()) add(*batch);
      return all;
    }
    l.cut(blocks, 0, blocks);
    while (const auto parts = l.next_blocks())
      for (const auto& part : *parts)
        if (part) add(*part);
    return all;
  };
  LoaderOptions options{.batch = 4, .seed = 9};
  std::map<int64_t, uint64_t> once;  // without a sampler
  for (const Seen& s : seen(options, 1)) once[s.sample] = s.random;
  options.sampler = weighted_sampler(std::vector(10, 1.0), {.num_samples = 50});
  const std::vector<Seen> drawn = seen(options, 1);
  std::set<int64_t> samples;
  std::set<uint64_t> numbers;
  for (const Seen& s : drawn) {
    if (samples.insert(s.sample).second) CHECK(s.random == once[s.sample]);
    numbers.insert(s.random);
  }
  REQUIRE(drawn.size() == 50);
  CHECK(numbers.size() == 50);
  options.workers = 3;
  const std::vector<Seen> cut = seen(options, 3);
  REQUIRE(cut.size() == 50);
  for (size_t i = 0; i < 50; ++i) CHECK(cut[i].random == drawn[i].random);
}

TEST_CASE("weighted sampler: a saved position is refused if seed or weights differ") {
  Loader<Order> saved = loader(0);
  saved.next();
  for (const auto& [seed, first] : {std::pair(uint64_t{10}, 4.0), {uint64_t{9}, 0.5}}) {
    Loader<Order> other = loader(0, {}, false, seed, first);
    CHECK_THROWS_WITH_AS(other.load_state_dict(saved.state_dict()),
                         doctest::Contains("differ from those in the saved run"), Error);
  }
}

// As in the mistake to give one weight per class.
TEST_CASE("weighted sampler: a loader with another number of samples refuses it") {
  for (const size_t weights : {2, 5})
    CHECK_THROWS_WITH_AS(
        Loader<Order>(4, [](const BatchPlan&) { return Order(); },
                      {.workers = 0, .sampler = weighted_sampler(std::vector(weights, 1.0))}),
        doctest::Contains("one weight per sample, not per class"), Error);
}

TEST_CASE("samplers: an epoch of fewer samples than a batch is an error with drop_last") {
  LoaderOptions options{.batch = 4, .drop_last = true, .workers = 0};
  options.sampler = [](Rng) { return std::vector<int64_t>{1, 0, 2}; };
  auto make = [](const BatchPlan& plan) { return std::ssize(plan.indices); };
  Loader<int64_t> loader(5, make, options);
  CHECK_THROWS_WITH_AS(loader.next(),
                       doctest::Contains("the sampler gives 3 samples, batches of 4"), Error);
}

TEST_CASE("samplers: drop_last works; wrong indices and a planner beside a sampler are errors") {
  Loader<Order> full = loader(0, {.num_samples = 11}, true);
  CHECK(epochs(full, 1).size() == 2);
  const auto make = [](const BatchPlan& plan) {
    return Order(plan.indices.begin(), plan.indices.end());
  };
  Loader<Order> few(3, make, {.batch = 8, .drop_last = true, .workers = 0, .sampler = [](Rng) {
                                return Order(9, 2);
                              }});
  CHECK(epochs(few, 1) == std::vector<Order>{Order(8, 2)});
  for (const int64_t wrong : {int64_t{-1}, int64_t{3}}) {
    Loader<Order> l(3, make, {.workers = 0, .sampler = [=](Rng) { return Order{0, wrong}; }});
    CHECK_THROWS_WITH_AS(l.next(), doctest::Contains("the sampler gives sample"), Error);
  }
  const Planner planner = [](int64_t, Rng) { return EpochPlan{{0}, {1}}; };
  CHECK_THROWS_WITH_AS(Loader<Order>(planner, make, {.sampler = [](Rng) { return Order{0}; }}),
                       doctest::Contains("a sampler would change nothing"), Error);
}

}  // namespace
}  // namespace tern::datasets::test_weighted_sampler
