// Loader: order, random numbers, workers, positions and blocks; labelled_loader on pictures of
// random bytes.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/images/labelled_pictures.h"

namespace tern::test_loader {
using namespace tern::datasets;

namespace {

/// A batch in these tests: the plan, and a random number of each sample and of the batch.
struct Record {
  LoaderPosition position;
  std::vector<int64_t> indices;
  std::vector<uint64_t> random;
  bool operator==(const Record&) const = default;
};

Record record_of(const BatchPlan& plan) {
  Record r{plan.position, {plan.indices.begin(), plan.indices.end()}, {}};
  for (int64_t i : r.indices) r.random.push_back(plan.sample_rng(i).next_u64());
  r.random.push_back(plan.batch_rng().next_u64());
  return r;
}

Loader<Record> recorder(int64_t samples, LoaderOptions options) {
  return Loader<Record>(samples, record_of, options);
}

/// The batches of `epochs` epochs.
std::vector<Record> run(Loader<Record>& loader, int epochs) {
  std::vector<Record> out;
  for (int e = 0; e < epochs; ++e)
    for (Record& r : loader) out.push_back(r);
  return out;
}

std::vector<Record> run(int64_t samples, LoaderOptions options, int epochs) {
  Loader<Record> loader = recorder(samples, options);
  return run(loader, epochs);
}

/// The number of batches up to the end of the epoch.
template <class B>
int run_all(Loader<B>& loader) {
  int n = 0;
  while (loader.next()) ++n;
  return n;
}

/// Pictures (3, 32, 32) of random bytes, labels in turn.
LabelledSet random_pictures(int64_t n, uint64_t seed) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(n * kImageBytes));
  Rng rng(seed);
  for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(rng.below(256));
  LabelledSet set{{bytes, bytes->data()}, {}};
  for (int64_t i = 0; i < n; ++i) set.labels.push_back(i % 10);
  return set;
}

Dataset<LabelledPicture> few_pictures(int64_t n) { return random_pictures(n, 3).dataset({}); }

bool same(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.shape() == b.shape() && a.to_vector<double>() == b.to_vector<double>();
}

bool same(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Batch& x, const Batch& y) {
    return same(x.images, y.images) && same(x.labels, y.labels) && same(x.targets, y.targets) &&
           same(x.indices, y.indices);
  });
}

std::vector<Batch> batches(Loader<Batch> loader, int epochs) {
  std::vector<Batch> out;
  for (int e = 0; e < epochs; ++e)
    for (Batch& b : loader) out.push_back(b);
  return out;
}

}  // namespace

TEST_CASE("loader: every epoch has every sample once, in a new order") {
  const auto records = run(103, {.batch = 10, .seed = 5}, 3);
  REQUIRE(records.size() == 33);
  std::map<int64_t, std::vector<int64_t>> orders;
  std::set<uint64_t> random;
  size_t numbers = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& r = records[i];
    CHECK(r.position == LoaderPosition{static_cast<int64_t>(i / 11), static_cast<int64_t>(i % 11)});
    CHECK(r.indices.size() == (i % 11 == 10 ? 3 : 10));
    auto& order = orders[r.position.epoch];
    order.insert(order.end(), r.indices.begin(), r.indices.end());
    random.insert(r.random.begin(), r.random.end());
    numbers += r.random.size();
  }
  CHECK(random.size() == numbers);  // no two samples, batches or epochs share random numbers
  CHECK(orders[0] != orders[1]);
  CHECK(orders[1] != orders[2]);
  for (auto& [epoch, order] : orders) {
    std::sort(order.begin(), order.end());
    REQUIRE(order.size() == 103);
    for (int64_t i = 0; i < 103; ++i) CHECK(order[i] == i);
  }
}

TEST_CASE("loader: any number of workers and any prefetch give the same batches") {
  for (bool shuffle : {false, true})
    for (bool drop_last : {false, true}) {
      const LoaderOptions serial{
          .batch = 7, .shuffle = shuffle, .drop_last = drop_last, .seed = 9, .workers = 0};
      const auto expected = run(50, serial, 4);
      CHECK(expected.size() == 4 * (drop_last ? 7 : 8));
      for (int workers : {1, 2, 3, 8})
        for (int prefetch : {1, 2, 5, 40}) {
          LoaderOptions options = serial;
          options.workers = workers;
          options.prefetch = prefetch;
          CHECK(run(50, options, 4) == expected);
        }
    }
}

TEST_CASE("loader: without shuffling the samples come in order") {
  const auto records = run(5, {.batch = 2, .shuffle = false}, 2);
  REQUIRE(records.size() == 6);
  CHECK(records[0].indices == std::vector<int64_t>{0, 1});
  CHECK(records[2].indices == std::vector<int64_t>{4});
  CHECK(records[4].indices == std::vector<int64_t>{2, 3});
  CHECK(records[0].random != records[3].random);  // but with new random numbers
}

TEST_CASE("loader: the same seed gives the same batches, another seed gives others") {
  CHECK(run(20, {.batch = 4, .seed = 1}, 1) == run(20, {.batch = 4, .seed = 1}, 1));
  CHECK(run(20, {.batch = 4, .seed = 1}, 1) != run(20, {.batch = 4, .seed = 2}, 1));
}

TEST_CASE("loader: resumes from a saved position, also in mid-epoch") {
  for (int workers : {0, 2}) {
    const LoaderOptions options{.batch = 4, .seed = 3, .workers = workers};
    const auto expected = run(18, options, 3);  // 5 batches per epoch
    for (size_t done = 0; done <= 11; ++done) {
      Loader<Record> first = recorder(18, options);
      for (size_t taken = 0; taken < done;) taken += first.next().has_value();
      Loader<Record> second = recorder(18, options);
      second.seek(first.position());
      CHECK(second.position() == first.position());
      std::vector<Record> rest;
      while (rest.size() < expected.size() - done)
        if (auto r = second.next()) rest.push_back(*r);
      CHECK(std::equal(rest.begin(), rest.end(), expected.begin() + done, expected.end()));
    }
  }
}

TEST_CASE("loader: next() reports the end of an epoch once, also after resuming there") {
  Loader<Record> loader = recorder(6, {.batch = 3});
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(loader.next());
  CHECK(loader.next());
  CHECK(loader.position() == LoaderPosition{0, 2});
  Loader<Record> resumed = recorder(6, {.batch = 3});
  resumed.seek({0, 2});
  for (Loader<Record>* l : {&loader, &resumed}) {
    CHECK(!l->next());
    CHECK(l->position() == LoaderPosition{1, 0});
    CHECK(l->next()->position == LoaderPosition{1, 0});
  }
  loader.seek({0, 1});  // back again, while batches of epoch 1 wait
  CHECK(loader.next()->position == LoaderPosition{0, 1});
  CHECK_THROWS_AS(loader.seek({0, 3}), Error);
  CHECK_THROWS_AS(loader.seek({-1, 0}), Error);
  CHECK_THROWS_AS(loader.seek({INT64_MAX, 0}), Error);
}

TEST_CASE("loader: no samples give no batches; wrong options are errors") {
  CHECK(run(0, {.batch = 3}, 3).empty());
  CHECK(run(0, {.batch = 3, .drop_last = true, .workers = 0}, 3).empty());
  CHECK_THROWS_AS(recorder(5, {.batch = 0}), Error);
  CHECK_THROWS_AS(recorder(5, {.workers = -1}), Error);
  CHECK_THROWS_AS(recorder(5, {.prefetch = 0}), Error);
  CHECK_THROWS_AS(recorder(5, {.batch = 6, .drop_last = true}), Error);
}

TEST_CASE("loader: a generator that batches share is refused for any number of workers") {
  for (int workers : {0, 1, 4}) {
    CAPTURE(workers);
    std::mutex mutex;
    Rng shared(3);
    Loader<double> loader(100,
                          [&](const BatchPlan&) {
                            const std::scoped_lock lock(mutex);
                            return shared.uniform();
                          },
                          {.batch = 10, .workers = workers});
    for (int again = 0; again < 2; ++again)  // not only once
      CHECK_THROWS_WITH_AS(run_all(loader), doctest::Contains("plan.rng_of(i)"), Error);
  }
  // Allowed: a copy of one generator, which draws the same in every batch, and a generator that the
  // plan sets.
  Rng base(4);
  base.next_u32();
  Loader<uint64_t> copies(
      100,
      [&](const BatchPlan& plan) {
        Rng copy = base, placed(Rng::State{7, static_cast<uint64_t>(plan.position.batch)});
        return copy.next_u64() + placed.next_u64();
      },
      {.batch = 10});
  CHECK(run_all(copies) == 10);
}

TEST_CASE("loader: an exception arrives in its place, and the batch can be tried again") {
  for (int workers : {0, 1, 3}) {
    std::atomic<bool> broken = true;
    Loader<int64_t> loader(10,
                           [&](const BatchPlan& plan) {
                             if (broken && plan.position.batch == 2)
                               throw std::runtime_error("sample 4 is bad");
                             return plan.position.batch;
                           },
                           {.batch = 2, .shuffle = false, .workers = workers});
    CHECK(loader.next() == 0);
    CHECK(loader.next() == 1);
    for (int attempt = 0; attempt < 2; ++attempt)
      CHECK_THROWS_WITH_AS(loader.next(),
                           "Loader: epoch 0, batch 2 (samples 4, 5): sample 4 is bad", Error);
    CHECK(loader.position() == LoaderPosition{0, 2});
    broken = false;
    for (int64_t b : {2, 3, 4}) CHECK(loader.next() == b);
    CHECK(!loader.next());
  }
}

TEST_CASE("loader: can be destroyed, moved and restarted while its workers are busy") {
  std::atomic<int> busy = 0, made = 0;
  for (int round = 0; round < 20; ++round) {
    Loader<int> loader(1000,
                       [&](const BatchPlan&) {
                         ++busy;
                         std::this_thread::sleep_for(std::chrono::microseconds(200));
                         --busy;
                         return ++made;
                       },
                       {.batch = 1, .workers = 3, .prefetch = 8});
    loader.next();
    if (round % 2) loader.seek({0, 500});
    Loader<int> moved = std::move(loader);
    moved.next();
  }
  CHECK(busy == 0);
  CHECK(made <= 20 * (2 * 8 + 2));  // prefetch limits the batches made in advance
}

TEST_CASE("loader: the same threads serve all epochs, seeks and failed batches") {
  std::mutex mutex;
  std::set<pid_t> makers;
  bool fails = false;
  auto run_out = [](auto& l) {
    while (l.next()) {
    }
  };
  Loader<LoaderPosition> loader(
      6,
      [&](const BatchPlan& plan) {
        const std::lock_guard lock(mutex);
        makers.insert(gettid());  // which, unlike thread::id, is not used again at once
        if (std::exchange(fails, false)) throw std::runtime_error("once");
        return plan.position;
      },
      {.batch = 1, .workers = 1, .prefetch = 2});
  for (int round = 0; round < 10; ++round) {
    for (int64_t start : {3, 5, 0}) {
      loader.seek({round, start});
      for (int64_t b = start; b < 6; ++b) CHECK(loader.next() == LoaderPosition{round, b});
      CHECK(!loader.next());
    }
    loader.seek({round, 2});
    {
      const std::lock_guard lock(mutex);
      fails = true;
    }
    CHECK_THROWS(run_out(loader));
    run_out(loader);
  }
  CHECK(makers.size() == 1);
}

TEST_CASE("loader: workers record no gradients and start no threads") {
  Loader<std::pair<bool, bool>> loader(
      4, [](const BatchPlan&) { return std::pair(grad_enabled(), in_serial()); },
      {.batch = 1, .workers = 2});
  for (auto& [grad, serial] : loader) {
    CHECK(!grad);
    CHECK(serial);
  }
  CHECK(grad_enabled());
  CHECK(!in_serial());
}

TEST_CASE("labelled_loader: image, label and index of a sample belong together") {
  const LabelledSet set = random_pictures(50, 1);
  Loader<Batch> loader = labelled_loader(set.dataset({}), {}, {.order = {.batch = 8}});
  int64_t seen = 0;
  for (Batch& b : loader) {
    const int64_t n = b.labels.size(0);
    CHECK(b.images.shape() == Shape{n, 3, 32, 32});
    CHECK(!b.targets.defined());
    for (int64_t i = 0; i < n; ++i, ++seen) {
      const int64_t index = b.indices.data<int64_t>()[i];
      CHECK(b.labels.data<int64_t>()[i] == set.labels[index]);
      const uint8_t* bytes = set.bytes.get() + index * kImageBytes;
      std::vector<float> expected(kImageBytes);
      normalize({bytes, bytes + kImageBytes}, {}, expected.data());
      CHECK(std::equal(expected.begin(), expected.end(), b.images.data<float>() + i * kImageBytes));
    }
  }
  CHECK(seen == 50);
}

TEST_CASE("labelled_loader: any number of workers gives the same augmented, mixed batches") {
  const auto data = few_pictures(30);
  auto options = [](int workers) {
    return LabelledLoaderOptions{.order = {.batch = 8, .seed = 4, .workers = workers},
                                 .augment = AugmentOptions::named("strong"),
                                 .mix = {.mixup = .8, .cutmix = 1}};
  };
  const auto expected = batches(labelled_loader(data, {}, options(0)), 2);
  REQUIRE(expected.size() == 8);
  CHECK(!same(expected[0].images, expected[4].images));
  for (int workers : {1, 2, 4})
    CHECK(same(batches(labelled_loader(data, {}, options(workers)), 2), expected));
  for (int workers : {0, 2}) {  // resumed in the middle of an epoch
    Loader<Batch> resumed = labelled_loader(data, {}, options(workers));
    resumed.seek({0, 3});
    CHECK(same(batches(std::move(resumed), 2), {expected.begin() + 3, expected.end()}));
  }
  for (const Batch& b : expected) {
    const auto targets = b.targets.to_vector<double>();
    for (size_t i = 0; i < targets.size(); i += 10) {
      double sum = 0;
      for (size_t k = 0; k < 10; ++k) sum += targets[i + k];
      CHECK(sum == doctest::Approx(1).epsilon(1e-6));
    }
  }
}

TEST_CASE("labelled_loader: alternating flips show each image both ways in two epochs") {
  const auto data = few_pictures(64);
  auto options = [](bool alternate, int workers) {
    return LabelledLoaderOptions{
        .order = {.batch = 16, .shuffle = false, .seed = 4, .workers = workers},
        .augment = {.flip = true, .alternate_flips = alternate}};
  };
  const LabelledLoaderOptions in_order{.order = {.batch = 16, .shuffle = false}};
  const auto plain = batches(labelled_loader(data, {}, in_order), 1);
  const auto alternating = batches(labelled_loader(data, {}, options(true, 0)), 4);
  CHECK(same(batches(labelled_loader(data, {}, options(true, 2)), 4), alternating));
  int mirrored[4] = {};
  for (size_t b = 0; b < 4; ++b)
    for (int64_t i = 0; i < 16; ++i) {
      const auto image = [&](const Batch& batch) { return select(batch.images, 0, i); };
      const Tensor whole = image(plain[b]), turned = flip(whole, {-1});
      for (size_t epoch = 0; epoch < 4; ++epoch) {
        const Tensor seen = image(alternating[4 * epoch + b]);
        const bool is_turned = same(seen, turned);
        REQUIRE((is_turned || same(seen, whole)));
        mirrored[epoch] += is_turned;
        if (epoch > 0) CHECK(is_turned != same(image(alternating[4 * epoch - 4 + b]), turned));
      }
    }
  CHECK((mirrored[0] > 16 && mirrored[0] < 48));  // of 64; misses with probability 5e-5
  CHECK(mirrored[1] == 64 - mirrored[0]);
  CHECK(mirrored[2] == mirrored[0]);
  // Without alternate_flips, chance decides in each epoch.
  const auto random = batches(labelled_loader(data, {}, options(false, 0)), 2);
  bool both = true;
  for (size_t b = 0; b < 4; ++b)
    both = both && same(random[b].images, flip(random[4 + b].images, {-1}));
  CHECK_FALSE(both);
}

TEST_CASE("loader: samples() counts the samples of the batch and of its blocks") {
  Loader<Record> loader = recorder(10, {.batch = 4});
  CHECK(loader.samples() == 0);
  for (const int64_t expected : {4, 4, 2, 4}) {
    if (!loader.next()) REQUIRE(loader.next());
    CHECK(loader.samples() == expected);
  }
  loader.seek({.epoch = 2, .batch = 1});
  loader.cut(3, 0, 3);
  for (int batch = 0; batch < 2; ++batch) {
    const auto blocks = loader.next_blocks();
    REQUIRE(blocks);
    for (size_t b = 0; b < 3; ++b)
      CHECK(loader.samples(static_cast<int64_t>(b)) ==
            ((*blocks)[b] ? std::ssize((*blocks)[b]->indices) : 0));
  }
}

TEST_CASE("labelled_loader: composed datasets, and a label out of range") {
  const auto data = few_pictures(20);
  const auto twice = data.limit(3).concat(data.subset({7}));
  const auto got =
      batches(labelled_loader(twice, {}, {.order = {.batch = 4, .shuffle = false}}), 1);
  REQUIRE(got.size() == 1);
  CHECK(got[0].labels.to_vector<int>() == std::vector<int>{0, 1, 2, 7});
  Loader<Batch> few_classes = labelled_loader(twice, {.classes = 7}, {});
  CHECK_THROWS_WITH_AS(
      few_classes.next(),
      "Loader: epoch 0, batch 0, sample 3: labelled_loader: the label is 7, there are "
      "7 classes",
      Error);
}

}  // namespace tern::test_loader
