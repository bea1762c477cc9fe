#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/optim/schedule.h"

using namespace tern;
using doctest::Approx;

TEST_CASE("schedules: constant, steps, linear, cosine") {
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
  CHECK(plateau.update(0.95) == 1);       // the first bad one is let pass
  CHECK(plateau.update(0.89999) == 0.5);  // less than 1e-4 better is not better
  CHECK(plateau.update(0.95) == 0.5);     // cooling down
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
