// Loaders of user-defined types, and how loaders report exceptions on their threads.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/data/images/labelled_pictures.h"
#include "tern/data/loading/dataset_loader.h"
#include "tern/data/text/pairs/pair_loader.h"

namespace tern::test_dataset_loader {
using namespace tern::datasets;

namespace {

using Ints = std::vector<int64_t>;

/// Types that a user might define: a sample, a batch and a source of samples.
struct Reading {
  int64_t number;
  double value;
};
struct Readings {
  Ints numbers;
  double sum = 0;
  bool operator==(const Readings&) const = default;
};
struct Meter {
  int64_t readings;
  int64_t size() const { return readings; }
  Reading get(int64_t i) const { return {i, .5 * static_cast<double>(i)}; }
};

Readings collate(const std::vector<Reading>& samples) {
  Readings out;
  for (const Reading& r : samples) out.numbers.push_back(r.number), out.sum += r.value;
  return out;
}

/// The batches of `epochs` epochs, with an empty one at the end of each.
std::vector<Readings> run(Loader<Readings> loader, int epochs) {
  std::vector<Readings> out;
  for (int e = 0; e < epochs; ++e, out.push_back({}))
    for (Readings& r : loader) out.push_back(r);
  return out;
}

/// Numbers 0 to n - 1, of which one throws.
Dataset<int64_t> with_fault(int64_t n, int64_t bad, std::function<void()> fault) {
  return Dataset(n, [=](int64_t i) {
    if (i == bad) fault();
    return i;
  });
}

Ints as_they_are(Ints samples) { return samples; }

/// The text of the Error that f throws, and of the exception nested in it; "" if there is none.
std::pair<std::string, std::string> thrown(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    try {
      std::rethrow_if_nested(e);
    } catch (const std::exception& inner) {
      return {e.what(), inner.what()};
    } catch (int inner) {
      return {e.what(), std::to_string(inner)};
    }
    return {e.what(), ""};
  }
  return {};
}

class OwnError : public std::logic_error {
 public:
  explicit OwnError(int code) : std::logic_error("own"), code(code) {}
  int code;
};

}  // namespace

TEST_CASE("dataset_loader: user-defined types; any number of workers gives the same batches") {
  const Dataset meter(Meter{23});
  const auto expected =
      run(dataset_loader(meter, collate, {.batch = 4, .seed = 2, .workers = 0}), 2);
  REQUIRE(expected.size() == 2 * 7);
  CHECK(expected[5].numbers.size() == 3);
  double sum = 0;
  for (size_t i = 0; i < 7; ++i) sum += expected[i].sum;
  CHECK(sum == .5 * 22 * 23 / 2);
  CHECK(expected[0] != expected[7]);
  for (int workers : {1, 3})
    CHECK(run(dataset_loader(meter, collate, {.batch = 4, .seed = 2, .workers = workers}), 2) ==
          expected);
}

TEST_CASE("dataset_loader: each sample and epoch has its own generator for the transform") {
  const Dataset meter(Meter{6});
  const auto noise = [](Reading r, Rng& rng) {
    r.value = rng.uniform();
    return r;
  };
  const auto values = [](const std::vector<Reading>& samples) {
    std::vector<double> out(6, -1);
    for (const Reading& r : samples) out[static_cast<size_t>(r.number)] = r.value;
    return out;
  };
  const auto epoch = [&](LoaderOptions options, int64_t number) {
    options.seed = 9;
    auto loader = dataset_loader(meter, noise, values, options);
    loader.seek({number, 0});
    std::vector<double> out(6, -1);
    for (auto& batch : loader)
      for (size_t i = 0; i < 6; ++i) out[i] = std::max(out[i], batch[i]);
    return out;
  };
  const auto first = epoch({.batch = 6, .workers = 0}, 0);
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < i; ++j) CHECK(first[i] != first[j]);
  CHECK(epoch({.batch = 1, .shuffle = false, .workers = 2}, 0) == first);  // for any batch size
  CHECK(epoch({.batch = 6}, 1) != first);
}

TEST_CASE("dataset_loader: collate may get the plan, and may move the samples") {
  const Dataset<std::unique_ptr<int64_t>> boxes(
      5, [](int64_t i) { return std::make_unique<int64_t>(i); });
  auto loader =
      dataset_loader(boxes,
                     [](std::vector<std::unique_ptr<int64_t>> samples, const BatchPlan& plan) {
                       for (size_t i = 0; i < samples.size(); ++i)
                         CHECK(*samples[i] == plan.indices[i]);
                       return std::make_unique<LoaderPosition>(plan.position);
                     },
                     {.batch = 2});
  for (int64_t b : {0, 1, 2}) CHECK(**loader.next() == LoaderPosition{0, b});
  CHECK(!loader.next());
}

TEST_CASE("loader: empty sets, one sample, batches larger than the set") {
  for (int workers : {0, 1, 3}) {
    const auto numbers = [&](int64_t samples, int64_t batch) {
      std::vector<Ints> out;
      auto loader = dataset_loader(with_fault(samples, -1, {}), as_they_are,
                                   {.batch = batch, .shuffle = false, .workers = workers});
      for (int e = 0; e < 2; ++e) {
        for (Ints& b : loader) out.push_back(b);
        CHECK(loader.position() == LoaderPosition{e + 1, 0});
      }
      return out;
    };
    CHECK(numbers(0, 3) == std::vector<Ints>{});
    CHECK(numbers(1, 3) == std::vector<Ints>{{0}, {0}});
    CHECK(numbers(2, 1000) == std::vector<Ints>{{0, 1}, {0, 1}});  // a batch larger than the set
    CHECK(numbers(4, 3) == std::vector<Ints>{{0, 1, 2}, {3}, {0, 1, 2}, {3}});  // a last batch of 1
    CHECK(numbers(3, 3) == std::vector<Ints>{{0, 1, 2}, {0, 1, 2}});
  }
}

TEST_CASE("labelled_loader, pair_loader: empty sets, one sample, a last batch of one") {
  const std::shared_ptr<const uint8_t[]> black(new uint8_t[3 * kImageBytes]());
  for (int64_t n = 0; n < 4; ++n) {
    LabelledSet set{{black, black.get()}, {}};
    for (int64_t i = 0; i < n; ++i) set.labels.push_back(i);
    const LabelledLoaderOptions options{.order = {.batch = 3, .workers = 2},
                                        .augment = AugmentOptions::named("strong"),
                                        .mix = {.mixup = 1, .cutmix = 1}};
    auto loader = labelled_loader(set.dataset({}), {}, options);
    CHECK(loader.batches_per_epoch() == (n + 2) / 3);
    int64_t seen = 0;
    for (Batch& b : loader) {
      const int64_t size = b.labels.size(0);
      CHECK(b.images.shape() == Shape{size, 3, 32, 32});
      CHECK(b.targets.shape() == Shape{size, 10});
      CHECK(max(abs(sub(sum(b.targets, 1), 1))).item() < 1e-6);
      seen += size;
    }
    CHECK(seen == n);
  }
  for (size_t n : {0, 1, 2, 3}) {
    auto pairs = std::make_shared<std::vector<EncodedPair>>(n, EncodedPair{{7}, {8, 9}});
    auto loader = pair_loader(pairs, {.batch = 2, .workers = 2});
    int64_t seen = 0;
    for (PairBatch& b : loader) seen += b.source.size(0);
    CHECK(seen == static_cast<int64_t>(n));
  }
}

TEST_CASE("loader: an exception gives epoch, batch and sample, and nests the original") {
  for (int workers : {0, 1, 3}) {
    const auto message = [&](std::function<void()> fault) {
      auto loader = dataset_loader(with_fault(12, 7, std::move(fault)), as_they_are,
                                   {.batch = 2, .shuffle = false, .workers = workers});
      loader.seek({4, 1});
      loader.next(), loader.next();
      return thrown([&] { loader.next(); });
    };
    const std::string place = "Loader: epoch 4, batch 3, sample 7: ";
    using Texts = std::pair<std::string, std::string>;
    CHECK(message([] { fail("no"); }) == Texts{place + "no", "no"});
    CHECK(message([] { throw OwnError(3); }) == Texts{place + "own", "own"});
    CHECK(message([] { throw 42; }) ==
          Texts{place + "something was thrown that is not a std::exception", "42"});
    CHECK(message([] { throw std::bad_alloc(); }).first == place + std::bad_alloc().what());

    auto damaged = dataset_loader(with_fault(3, 2, [] { fail_io("a.bin: ends early"); }),
                                  as_they_are, {.batch = 3, .shuffle = false, .workers = workers});
    CHECK_THROWS_WITH_AS(damaged.next(), "Loader: epoch 0, batch 0, sample 2: a.bin: ends early",
                         IoError);
    auto own = dataset_loader(with_fault(3, 2, [] { throw OwnError(3); }), as_they_are,
                              {.workers = workers});
    try {
      own.next();
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      try {
        std::rethrow_if_nested(e);
        FAIL("nothing is nested");
      } catch (const OwnError& inner) {
        CHECK(inner.code == 3);
      }
    }
  }
}

TEST_CASE("loader: exceptions of map, transform and collate give their place") {
  const auto fault = [](bool here) { check(!here, "no"); };
  const LoaderOptions options{.batch = 6, .shuffle = false, .workers = 1};
  const Dataset numbers = with_fault(6, -1, {});
  const std::string sample = "Loader: epoch 0, batch 0, sample 4: no";
  const auto mapped = numbers.map([&](int64_t i) { return fault(i == 4), i; });
  CHECK(thrown([&] { dataset_loader(mapped, as_they_are, options).next(); }).first == sample);
  const auto transform = [&](int64_t i, Rng&) { return fault(i == 4), i; };
  CHECK(thrown([&] { dataset_loader(numbers, transform, as_they_are, options).next(); }).first ==
        sample);
  const auto collating = [&](const Ints& samples) { return fault(samples.size() == 6), samples; };
  CHECK(thrown([&] { dataset_loader(numbers, collating, options).next(); }).first ==
        "Loader: epoch 0, batch 0 (samples 0, 1, 2, 3, ... (6)): no");
}

TEST_CASE("loader: exceptions while prefetching arrive in order, and seek can skip them") {
  for (int workers : {0, 1, 4}) {
    const Dataset odd(10, [](int64_t i) {
      check(i % 2 == 0, "odd");
      return i;
    });
    auto loader = dataset_loader(odd, as_they_are,
                                 {.batch = 1, .shuffle = false, .workers = workers, .prefetch = 6});
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      for (int64_t b = 0; b < 10; ++b) {
        if (b % 2 == 0) {
          CHECK(loader.next() == Ints{b});
        } else {
          CHECK_THROWS_AS(loader.next(), Error);
          CHECK(loader.position() == LoaderPosition{epoch, b});
          loader.seek({epoch, b + 1});
        }
      }
      CHECK(!loader.next());
    }
  }
}

TEST_CASE("loader: an error in planning an epoch does not appear in the epoch before") {
  for (int workers : {0, 1, 3}) {
    Loader<int64_t> loader(Planner([](int64_t epoch, Rng) {
                             check(epoch < 1, "enough");
                             return EpochPlan{{0, 1, 2}, {1, 2, 3}};
                           }),
                           [](const BatchPlan& plan) { return plan.indices[0]; },
                           {.workers = workers});
    for (int64_t i : {0, 1, 2}) CHECK(loader.next() == i);
    CHECK(!loader.next());
    CHECK_THROWS_WITH_AS(loader.next(), "Loader: planning epoch 1: enough", Error);
  }
  const std::vector<Ints> wrong = {{4}, {2, 2}, {2, 1}, {0}, {-1}};
  for (const Ints& ends : wrong) {
    Loader<int64_t> loader(Planner([=](int64_t, Rng) {
                             return EpochPlan{{0, 1, 2}, ends};
                           }),
                           [](const BatchPlan& plan) { return plan.indices[0]; }, {});
    CHECK_THROWS_AS(loader.next(), Error);
  }
}

TEST_CASE("loader: epochs without samples give no batch, for any number of workers") {
  const auto every_third = [](int64_t epoch, Rng) {
    return epoch % 3 == 1 ? EpochPlan{{2, 0}, {1, 2}} : EpochPlan{};
  };
  const auto sample = [](const BatchPlan& plan) { return plan.indices[0]; };
  for (int workers : {0, 1, 3}) {
    Loader<int64_t> loader(Planner(every_third), sample, {.workers = workers, .prefetch = 5});
    for (int64_t epoch = 0; epoch < 8; ++epoch) {
      CHECK(loader.position() == LoaderPosition{epoch, 0});
      Ints seen;
      for (int64_t i : loader) seen.push_back(i);
      CHECK(seen == (epoch % 3 == 1 ? Ints{2, 0} : Ints{}));
    }
  }
}

TEST_CASE("loader: destruction in mid-epoch frees batches and exceptions that were not taken") {
  std::atomic<int> alive = 0;
  struct Counted {
    std::atomic<int>* alive;
    explicit Counted(std::atomic<int>* a) : alive(a) { ++*alive; }
    Counted(const Counted& o) : Counted(o.alive) {}
    ~Counted() { --*alive; }
  };
  for (int round = 0; round < 30; ++round) {
    const Dataset data(100, [&](int64_t i) {
      check(i % 3 != 1, "every third");
      return Counted(&alive);
    });
    auto loader = dataset_loader(
        data, [](std::vector<Counted> samples) { return samples; },
        {.batch = 1, .shuffle = false, .workers = 1 + round % 4, .prefetch = 1 + round % 7});
    CHECK(loader.next()->size() == 1);
    if (round % 2) CHECK_THROWS_AS(loader.next(), Error);
    if (round % 3 == 0) loader.seek({2, 6});
    if (round % 3 == 0) CHECK(loader.next()->size() == 1);
  }
  CHECK(alive == 0);
}

TEST_CASE("loader: two loaders are independent, in turn and on two threads") {
  const Dataset meter(Meter{40});
  const auto make = [&](uint64_t seed) {
    return dataset_loader(meter, collate, {.batch = 3, .seed = seed, .workers = 2, .prefetch = 2});
  };
  const auto a = run(make(1), 3), b = run(make(2), 3);
  CHECK(a != b);
  auto first = make(1), second = make(2);
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(first.next().value_or(Readings{}) == a[i]);
    CHECK(second.next().value_or(Readings{}) == b[i]);
  }
  std::vector<Readings> c, d;
  std::thread one([&] { c = run(make(1), 3); }), two([&] { d = run(make(2), 3); });
  one.join(), two.join();
  CHECK(c == a);
  CHECK(d == b);
}

TEST_CASE("loader: its state restores the position, and a loader of other batches refuses it") {
  const Dataset meter(Meter{20});
  const LoaderOptions options{.batch = 3, .seed = 4, .workers = 2};
  const auto expected = run(dataset_loader(meter, collate, options), 3);
  for (size_t done : {0, 1, 6, 7, 8, 15}) {
    auto first = dataset_loader(meter, collate, options);
    for (size_t i = 0; i < done; ++i) first.next();
    auto second = dataset_loader(meter, collate, options);
    second.load_state_dict(first.state_dict());
    CHECK(second.position() == first.position());
    for (size_t i = done; i < expected.size(); ++i)
      CHECK(second.next().value_or(Readings{}) == expected[i]);
  }
  auto loader = dataset_loader(meter, collate, options);
  loader.next();
  const NamedTensors state = loader.state_dict();
  std::vector<LoaderOptions> others(4, options);
  others[0].batch = 4;
  others[1].seed = 5;
  others[2].shuffle = false;
  others[3].drop_last = true;
  for (const LoaderOptions& other : others) {
    auto l = dataset_loader(meter, collate, other);
    CHECK_THROWS_AS(l.load_state_dict(state), Error);
    CHECK(l.position() == LoaderPosition{});
  }
  CHECK_THROWS_AS(dataset_loader(meter.limit(19), collate, options).load_state_dict(state), Error);
  auto unordered = options;
  unordered.shuffle = false, unordered.workers = 0;
  auto in_order = dataset_loader(meter, collate, unordered);
  unordered.seed = 5;  // the same order, but other random numbers
  CHECK_THROWS_AS(dataset_loader(meter, collate, unordered).load_state_dict(in_order.state_dict()),
                  Error);
  for (size_t missing : {0, 1, 2}) {
    NamedTensors part = state;
    part.erase(part.begin() + static_cast<std::ptrdiff_t>(missing));
    CHECK_THROWS_AS(loader.load_state_dict(part), Error);
  }
  NamedTensors beyond = state;
  beyond[1].second = full({}, 8, DType::i64);
  CHECK_THROWS_AS(loader.load_state_dict(beyond), Error);
  beyond[0].second = full({}, -1, DType::i64);
  CHECK_THROWS_AS(loader.load_state_dict(beyond), Error);
  CHECK(loader.position() == LoaderPosition{0, 1});
}

}  // namespace tern::test_dataset_loader
