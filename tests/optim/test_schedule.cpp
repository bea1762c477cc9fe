// Learning-rate schedules and plateaus, against their formulas and PyTorch's numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/optim/schedule.h"
#include "tern/optim/sgd.h"

namespace tern::test_schedule {
using doctest::Approx;

namespace {

/// Numbers of PyTorch, which tests/reference/optim/make_schedules.py wrote.
std::vector<double> pytorch(const std::string& name) {
  static const SafeTensors kFile =
      load_safetensors(TERN_SOURCE_DIR "/tests/reference/optim/schedules.safetensors");
  return kFile.find(name).to_vector<double>();
}

void check_equals(const std::string& name, const optim::Schedule& schedule) {
  const std::vector<double> want = pytorch(name);
  for (size_t step = 0; step < want.size(); ++step)
    CHECK_MESSAGE(std::abs(schedule(static_cast<int64_t>(step)) - want[step]) < 1e-12, name, " at ",
                  step, ": ", schedule(static_cast<int64_t>(step)), " instead of ", want[step]);
}

}  // namespace

TEST_CASE("schedules: constant, step decay, linear, cosine") {
  optim::Schedule warm = optim::constant(4);
  CHECK(warm(0) == 0.25);
  CHECK(warm(3) == 1);
  CHECK(warm(1000) == 1);
  CHECK(optim::constant()(0) == 1);

  optim::Schedule steps = optim::step_decay(10, 0.5);
  CHECK(steps(9) == 1);
  CHECK(steps(10) == 0.5);
  CHECK(steps(35) == 0.125);

  optim::Schedule line = optim::linear_decay({.warmup = 2, .total = 12, .last = 0.1});
  CHECK(line(0) == 0.5);
  CHECK(line(1) == 1);
  CHECK(line(2) == 1);
  CHECK(line(7) == Approx(0.55));
  CHECK(line(12) == Approx(0.1));
  CHECK(line(99) == Approx(0.1));

  optim::Schedule cosine = optim::cosine({.total = 8, .last = 0.2});
  CHECK(cosine(0) == 1);
  CHECK(cosine(2) == Approx(0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2));
  CHECK(cosine(4) == Approx(0.6));
  CHECK(cosine(8) == Approx(0.2));
  CHECK_THROWS_AS(optim::cosine({.warmup = 5, .total = 5}), Error);
  CHECK_THROWS_AS(optim::linear_decay({}), Error);
}

TEST_CASE("schedules: Noam and inverse square root") {
  // d_model 512, warm-up 4000: the largest rate is 512^-0.5 * 4000^-0.5 at step 4000.
  optim::Schedule noam = optim::noam(512);
  CHECK(noam(3999) == Approx(1 / std::sqrt(512.0 * 4000.0)));
  CHECK(noam(0) == Approx(std::pow(512.0, -0.5) * std::pow(4000.0, -1.5)));
  CHECK(noam(15999) == Approx(noam(3999) / 2));
  CHECK(noam(3998) < noam(3999));
  CHECK(noam(4000) < noam(3999));

  optim::Schedule root = optim::inverse_sqrt(100);
  CHECK(root(49) == 0.5);
  CHECK(root(99) == 1);
  CHECK(root(399) == 0.5);
}

TEST_CASE("schedules: plateau waits, reduces, cools down, and continues from its state") {
  optim::Plateau plateau({.factor = 0.5, .patience = 1, .cooldown = 1, .smallest = 0.2});
  CHECK(plateau.update(1.0) == 1);
  CHECK(plateau.update(0.9) == 1);
  CHECK(plateau.update(0.95) == 1);       // patience allows one bad metric
  CHECK(plateau.update(0.89999) == 0.5);  // better by less than 1e-4 does not count
  CHECK(plateau.update(0.95) == 0.5);     // during the cooldown
  CHECK(plateau.update(0.95) == 0.5);
  optim::Plateau other({.factor = 0.5, .patience = 1, .cooldown = 1, .smallest = 0.2});
  other.load_state_dict(plateau.state_dict());
  CHECK(plateau.update(0.95) == 0.25);
  CHECK(other.update(0.95) == 0.25);
  for (int i = 0; i < 9; ++i) plateau.update(1);
  CHECK(plateau.factor() == 0.2);

  optim::Plateau accuracy({.patience = 0, .maximize = true});
  CHECK(accuracy.update(0.1) == 1);
  CHECK(accuracy.update(0.2) == 1);
  CHECK(accuracy.update(0.2) == Approx(0.1));
}

TEST_CASE("schedules: equal PyTorch's learning rates") {
  using optim::Anneal, optim::Cycle;
  check_equals("polynomial", optim::polynomial({.total = 30, .power = 2.5}));
  check_equals("one_cycle", optim::one_cycle({.total = 40}));
  check_equals("one_cycle_linear", optim::one_cycle({.total = 40,
                                                     .pct_start = .45,
                                                     .anneal = Anneal::linear,
                                                     .div_factor = 10,
                                                     .final_div_factor = 100}));
  check_equals("one_cycle_three",
               optim::one_cycle({.total = 40, .pct_start = .25, .three_phase = true}));
  check_equals("one_cycle_start_0", optim::one_cycle({.total = 40, .pct_start = 0}));
  check_equals("one_cycle_start_1", optim::one_cycle({.total = 40, .pct_start = 1}));
  check_equals("cyclic", optim::cyclic({.base = .2, .up = 5}));
  check_equals("cyclic_2",
               optim::cyclic({.base = .2, .up = 4, .down = 7, .mode = Cycle::triangular2}));
  check_equals("cyclic_exp",
               optim::cyclic({.base = .2, .up = 6, .mode = Cycle::exp_range, .gamma = .95}));
  check_equals("sequential",
               optim::sequential({optim::polynomial({.total = 10}), optim::step_decay(4, .5),
                                  optim::polynomial({.total = 12, .power = 2})},
                                 {7, 21}));
  check_equals("chained", optim::chained({optim::step_decay(6, .5),
                                          optim::polynomial({.total = 45, .power = 1.5})}));
}

TEST_CASE("schedules: steps beyond the end, and invalid options") {
  optim::Schedule cycle = optim::one_cycle({.total = 10, .div_factor = 4});
  CHECK(cycle(1000) == cycle(9));
  CHECK(optim::one_cycle({.total = 1})(0) > 0);
  optim::Schedule warm = optim::polynomial({.warmup = 4, .total = 12, .last = .1, .power = 2});
  CHECK(warm(0) == .25);
  CHECK(warm(4) == 1);
  CHECK(warm(8) == Approx(.1 + .9 * .25));
  CHECK(warm(99) == Approx(.1));
  CHECK(optim::polynomial({.total = 9})(4) == Approx(optim::linear_decay({.total = 9})(4)));
  CHECK_THROWS_AS(optim::polynomial({.warmup = 5, .total = 5}), Error);
  CHECK_THROWS_AS(optim::polynomial({.total = 5, .power = 0}), Error);
  CHECK_THROWS_AS(optim::one_cycle({}), Error);
  CHECK_THROWS_AS(optim::one_cycle({.total = 5, .pct_start = 1.5}), Error);
  CHECK_THROWS_AS(optim::cyclic({.base = 2}), Error);
  CHECK_THROWS_AS(optim::cyclic({.up = 0}), Error);
  CHECK_THROWS_AS(optim::sequential({warm, warm}, {}), Error);
  CHECK_THROWS_AS(optim::sequential({warm, warm, warm}, {5, 5}), Error);
  CHECK_THROWS_AS(optim::sequential({warm, {}}, {5}), Error);
  CHECK_THROWS_AS(optim::chained({}), Error);
  optim::Sgd sgd(NamedTensors{{"w", ones({2}).set_requires_grad()}}, {.lr = 1});
  for (const double factor : {-1., optim::cosine({.total = 10})(-1)})  // NaN
    CHECK_THROWS_WITH_AS(sgd.set_lr_factor(factor), doctest::Contains("Sgd: the factor"), Error);
}

TEST_CASE("schedules: plateaus reduce where PyTorch's do, and continue from any saved state") {
  const std::vector<double> metric = pytorch("plateau.metric");
  const std::vector<std::pair<std::string, optim::PlateauOptions>> cases = {
      {"plateau", {.patience = 2}},
      {"plateau_max",
       {.factor = .5, .patience = 3, .threshold = .01, .cooldown = 2, .maximize = true}},
      {"plateau_abs",
       {.factor = .6, .patience = 1, .threshold = .2, .absolute = true, .smallest = .05}}};
  for (const auto& [name, options] : cases) {
    const std::vector<double> want = pytorch(name);
    optim::Plateau plateau(options);
    for (size_t epoch = 0; epoch < metric.size(); ++epoch) {
      optim::Plateau other(options);
      other.load_state_dict(plateau.state_dict());
      CHECK(plateau.update(metric[epoch]) == Approx(want[epoch]).epsilon(1e-12));
      CHECK(other.update(metric[epoch]) == plateau.factor());
    }
  }
  CHECK_THROWS_AS(optim::Plateau({.patience = -1}), Error);
}

}  // namespace tern::test_schedule
