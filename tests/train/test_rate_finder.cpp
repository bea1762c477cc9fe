// The search for a learning rate, on a problem with a known answer; and that it restores
// everything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_rate_finder {
namespace {

using doctest::Approx;

// loss = sum(curvature w^2) / 2. Steps of SGD grow without bound at rates above 2 / max(curvature)
// and shrink below.
struct Bowl {
  nn::Parameter w{tensor(std::vector<double>{1, 1}, {2})};
  static void fields(auto& m, auto&& visit) { visit("w", m.w); }
};
const std::vector<double> kCurvature = {1, 50};

datasets::Loader<int> ticks(int64_t count = 7) {
  return datasets::Loader<int>(count,
                               [](const datasets::BatchPlan& p) { return int(p.indices[0]); },
                               {.batch = 1, .shuffle = false, .workers = 0});
}

/// The expected result of find_rate for the bowl, computed in plain numbers.
RateCurve naive(const RateFinderOptions& o) {
  RateCurve curve;
  double w[2] = {1, 1}, mean = 0, least = INFINITY;
  for (int64_t step = 0; step < o.steps; ++step) {
    const double lr =
        o.lowest * std::pow(o.highest / o.lowest,
                            static_cast<double>(step) / static_cast<double>(o.steps - 1));
    const double loss = (kCurvature[0] * w[0] * w[0] + kCurvature[1] * w[1] * w[1]) / 2;
    mean = o.smoothing * mean + (1 - o.smoothing) * loss;
    const double smoothed = mean / (1 - std::pow(o.smoothing, static_cast<double>(step + 1)));
    least = std::min(least, smoothed);
    if (smoothed > o.diverged * least) {
      curve.diverged = true;
      break;
    }
    curve.points.push_back({lr, smoothed});
    for (int i = 0; i < 2; ++i) w[i] -= lr * kCurvature[static_cast<size_t>(i)] * w[i];
  }
  return curve;
}

RateCurve found(Bowl& bowl, const RateFinderOptions& o, double lr = 0.5) {
  optim::Sgd sgd(nn::named_parameters(bowl), {.lr = lr});
  auto loader = ticks();
  const Tensor curvature = tensor(kCurvature, {2});
  return find_rate(
      bowl, sgd, loader, [&](int) { return sum(curvature * bowl.w * bowl.w) / 2; }, o);
}

TEST_CASE("rate finder: the curve of a quadratic equals plain arithmetic and ends at divergence") {
  for (const double smoothing : {0.0, 0.5, 0.98}) {
    CAPTURE(smoothing);
    const RateFinderOptions options{
        .lowest = 1e-5, .highest = 1, .steps = 120, .smoothing = smoothing};
    Bowl bowl;
    const RateCurve curve = found(bowl, options), want = naive(options);
    CHECK(curve.diverged);
    CHECK(want.diverged);
    REQUIRE(curve.points.size() == want.points.size());
    // Each step rounds w by a few units of 2^-53. Divergence multiplies these errors by the same
    // factor as the loss.
    for (size_t i = 0; i < want.points.size(); ++i) {
      CHECK(curve.points[i].lr == Approx(want.points[i].lr).epsilon(1e-12));
      CHECK(curve.points[i].loss == Approx(want.points[i].loss).epsilon(1e-11));
    }
    CHECK(curve.points.back().lr > 2 / kCurvature[1]);  // below that, nothing grows
    CHECK(curve.steepest() < 2 / kCurvature[1]);
    // The rates are evenly spaced, so the steepest slope is the largest fall.
    size_t steepest = 0;
    for (size_t i = 1; i + 1 < want.points.size(); ++i)
      if (want.points[i].loss - want.points[i + 1].loss >
          want.points[steepest].loss - want.points[steepest + 1].loss)
        steepest = i;
    CHECK(curve.steepest() == curve.points[steepest].lr);
    CHECK(bowl.w.tensor().to_vector<double>() == std::vector<double>{1, 1});
  }
}

TEST_CASE("rate finder: the rates do not depend on the optimizer's learning rate") {
  const RateFinderOptions options{.lowest = 1e-5, .highest = 1e-2, .steps = 20};
  Bowl bowl;
  const RateCurve a = found(bowl, options, 0.5), b = found(bowl, options, 1e-6);
  CHECK_FALSE(a.diverged);
  REQUIRE(a.points.size() == 20);
  CHECK(a.points.front().lr == 1e-5);
  CHECK(a.points.back().lr == Approx(1e-2).epsilon(1e-12));
  for (size_t i = 0; i < 20; ++i)
    CHECK(a.points[i].loss == Approx(b.points[i].loss).epsilon(1e-12));
}

TEST_CASE("rate finder: steepest() and minimum_by_10() of a curve") {
  const RateCurve curve{{{1e-4, 1}, {1e-3, 0.9}, {1e-2, 0.3}, {1e-1, 0.2}, {1, 5}, {2, 1}}, true};
  CHECK(curve.steepest() == 1e-3);  // not the later fall after the minimum
  CHECK(curve.minimum_by_10() == Approx(1e-2));
  const RateCurve rising{{{1e-3, 1}, {1e-2, 2}}, true};
  CHECK_THROWS_WITH_AS(rising.steepest(), doctest::Contains("never falls"), Error);
  CHECK(rising.minimum_by_10() == Approx(1e-4));
  CHECK_THROWS_AS(RateCurve{}.steepest(), Error);
  CHECK_THROWS_AS(RateCurve{}.minimum_by_10(), Error);
}

TEST_CASE("rate finder: a training in any state continues with the same bits") {
  for (int before = 0; before < 6; ++before) {
    CAPTURE(before);
    Training plain, searched;
    for (int i = 0; i < before; ++i) plain.step(), searched.step();
    const double rate = searched.learner.lr();
    const datasets::LoaderPosition place = searched.loader.position();
    const RateCurve curve =
        find_rate(searched.model, searched.optimizer, searched.loader, loss_of(searched.model),
                  {.lowest = 1e-5, .highest = 100, .steps = 40, .clip = 1});
    CHECK(curve.points.size() > 13);  // over more than two epochs of six batches
    CHECK(searched.learner.lr() == rate);
    CHECK(searched.loader.position() == place);
    CHECK(searched.model.dropout.training);
    check_same(plain.loop.state(), searched.loop.state());
    for (int i = before; i < 6; ++i) plain.step(), searched.step();
    check_same(plain.loop.state(), searched.loop.state());
  }
}

TEST_CASE("rate finder: groups keep their ratio, and the factor of the rate is restored exactly") {
  Rng rng(1);
  nn::Linear a(4, 3, rng);
  const NamedTensors p = nn::named_parameters(a);
  optim::Sgd sgd(optim::ParameterGroups{{{{p[0]}}, {.parameters = {p[1]}, .lr = 0.03}}},
                 {.lr = 0.01});
  sgd.set_lr_factor(0.3);
  std::vector<double> ratios;
  auto loader = points();
  find_rate(a, sgd, loader,
            [&](const Points& p) {
              ratios.push_back(sgd.lr(1) / sgd.lr(0));
              return cross_entropy(a(p.x), p.label);
            },
            {.steps = 5});
  REQUIRE(ratios.size() == 5);
  for (double r : ratios) CHECK(r == Approx(3).epsilon(1e-12));
  CHECK(sgd.lr_factor() == 0.3);
}

TEST_CASE("rate finder: a loss that is not finite ends it; an exception leaves all as before") {
  Training t, plain;
  t.step(), plain.step();
  int64_t calls = 0;
  const auto poisoned = [&](int64_t at, bool throws) {
    return [&, at, throws](const Points& p) {
      if (++calls == at && throws) throw std::runtime_error("a test");
      return cross_entropy(t.model(p.x), p.label) + (calls == at ? kNan : 0.0);
    };
  };
  const RateFinderOptions options{.lowest = 1e-5, .highest = 1e-2, .steps = 20};
  const RateCurve curve = find_rate(t.model, t.optimizer, t.loader, poisoned(4, false), options);
  CHECK(curve.diverged);
  CHECK(curve.points.size() == 3);
  check_same(plain.loop.state(), t.loop.state());
  calls = 0;
  CHECK_THROWS_AS(find_rate(t.model, t.optimizer, t.loader, poisoned(1, false), options), Diverged);
  check_same(plain.loop.state(), t.loop.state());
  calls = 0;
  CHECK_THROWS_WITH(find_rate(t.model, t.optimizer, t.loader, poisoned(9, true), options),
                    "a test");
  check_same(plain.loop.state(), t.loop.state());
  CHECK_FALSE(t.model.up.weight.tensor().grad().defined());
  t.step(), plain.step();
  check_same(plain.loop.state(), t.loop.state());
}

TEST_CASE("rate finder: invalid options") {
  Bowl bowl;
  for (const RateFinderOptions& wrong : std::vector<RateFinderOptions>{{.lowest = 0},
                                                                       {.lowest = 1, .highest = 1},
                                                                       {.highest = INFINITY},
                                                                       {.steps = 1},
                                                                       {.smoothing = 1},
                                                                       {.smoothing = kNan},
                                                                       {.diverged = 1},
                                                                       {.clip = -1}})
    CHECK_THROWS_AS(found(bowl, wrong), Error);
  CHECK_THROWS_WITH_AS(found(bowl, {}, 0), doctest::Contains("it must be above 0"), Error);
}

}  // namespace
}  // namespace tern::test::test_rate_finder
