// Lookahead and groups for the biases of norms, compared with their definitions in plain numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/optim/optim.h"

namespace tern::test_lookahead {
namespace {

void set(const Tensor& t, double value) {
  NoGradGuard no_grad;
  fill_(t, value);
}

}  // namespace

TEST_CASE("Lookahead: slow weights, and the weights from which training continues") {
  const Tensor w = ones({3}).set_requires_grad(), n = scalar(1, DType::i64);
  optim::Lookahead lookahead({{"w", w}, {"n", n}}, {.every = 2, .decay = 0.5, .total = 5});
  CHECK(lookahead.share(0) == 0);
  CHECK(lookahead.share(5) == 0.25);
  CHECK(lookahead.share(9) == 0.25);  // beyond options.total
  double slow = 1;
  for (int64_t step = 1; step <= 5; ++step) {
    const double trained = 10. * static_cast<double>(step);
    set(w, trained);
    set(n, static_cast<double>(step));
    lookahead.after(step);
    if (step % 2 == 0) {
      const double share = 0.25 * std::pow(static_cast<double>(step) / 5, 3);
      slow = share * slow + (1 - share) * trained;
    }
    const bool pulled = step % 2 == 0 || step == 5;
    CHECK(w.to_vector<float>()[2] == doctest::Approx(pulled ? slow : trained));
    CHECK(n.item<int64_t>() == step);
  }
  CHECK(w.requires_grad());
  CHECK_THROWS_WITH_AS(lookahead.after(0), doctest::Contains("counts the steps taken, from 1"),
                       Error);
}

TEST_CASE("Lookahead: without a total the share is constant; a loaded state continues") {
  const Tensor w = ones({2}), v = ones({2});
  optim::Lookahead first({{"w", w}}, {.every = 1, .decay = 0.75}),
      second({{"w", v}}, {.every = 1, .decay = 0.75});
  set(w, 5);
  first.after(1);
  CHECK(w.to_vector<float>() == std::vector<float>(2, 2));
  second.load_state_dict(first.state_dict());
  set(w, 6);
  set(v, 6);
  first.after(2);
  second.after(2);
  CHECK(w.to_vector<float>() == std::vector<float>(2, 3));
  CHECK(v.to_vector<float>() == std::vector<float>(2, 3));
  CHECK_THROWS_AS(optim::Lookahead({{"w", w}}, {.every = 0}), Error);
  CHECK_THROWS_AS(optim::Lookahead({{"w", w}}, {.decay = 1}), Error);
  CHECK_THROWS_AS(optim::Ema({{"w", w}}).update(1.5), Error);
}

TEST_CASE("scale_norm_biases: biases of norms get separate groups that decay as fast") {
  const auto parameter = [](const Shape& shape) { return ones(shape).set_requires_grad(); };
  const NamedTensors p = {{"conv.weight", parameter({2, 1, 3, 3})},
                          {"conv.bias", parameter({2})},
                          {"norm.weight", parameter({2})},
                          {"norm.bias", parameter({2})},
                          {"block.norm1.bias", parameter({2})},
                          {"generator.bias", parameter({2})},  // its weight is tied
                          {"fc.weight", parameter({3, 2})},
                          {"fc.bias", parameter({3})},
                          {"pos", parameter({2})}};
  const optim::Sgd one(optim::scale_norm_biases(p, 64, 0.5, 0.125),
                       {.lr = 0.5, .weight_decay = 0.125});
  REQUIRE(one.num_groups() == 2);
  CHECK(one.names_in(1) == std::vector<std::string>{"norm.bias", "block.norm1.bias"});
  CHECK(one.lr(0) == 0.5);
  CHECK(one.weight_decay(0) == 0.125);
  CHECK(one.lr(1) == 32);
  CHECK(one.weight_decay(1) == 0.125 / 64);
  // Together with decay_groups().
  const optim::Sgd two(optim::scale_norm_biases(optim::decay_groups(p, 0.25), 2, 1, 0.25),
                       {.lr = 1, .weight_decay = 0.25});
  REQUIRE(two.num_groups() == 3);
  CHECK(two.names_in(0) == std::vector<std::string>{"conv.weight", "fc.weight"});
  CHECK(two.names_in(2) == std::vector<std::string>{"norm.bias", "block.norm1.bias"});
  CHECK(two.weight_decay(2) == 0);
  CHECK(optim::scale_norm_biases(NamedTensors{{"bias", parameter({2})}}, 2, 1, 0).list.size() == 1);
  CHECK_THROWS_AS(optim::scale_norm_biases(p, 0, 1, 0), Error);
}

}  // namespace tern::test_lookahead
