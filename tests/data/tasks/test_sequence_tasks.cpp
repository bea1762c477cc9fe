// The tasks of the Neural Turing Machine: the sequences, their distributions, and the cost of
// answers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/data/tasks/sequence_tasks.h"
#include "tern/tests/support/model_checks.h"

namespace tern::datasets::test_sequence_tasks {
namespace {

using test::close, test::same;

Tensor steps(const Tensor& x, int64_t first, int64_t count) { return narrow(x, 1, first, count); }
Tensor channels(const Tensor& x, int64_t first, int64_t count) {
  return narrow(x, 2, first, count);
}
double total(const Tensor& x) { return sum(x).item(); }

/// Whether all elements are 0 or 1.
bool binary(const Tensor& x) { return total(x * (1 - x)) == 0; }

}  // namespace

TEST_CASE("sequence tasks: names, sizes, and the same draws from the same generator") {
  for (const std::string& name : sequence_task_names()) {
    INFO(name);
    const SequenceTask task = sequence_task(name);
    CHECK(task.name == name);
    Rng a(3), b(3), other(4);
    const SequenceBatch x = task.draw(5, a), y = task.draw(5, b), z = task.draw(5, other);
    CHECK(same(x.input, y.input));
    CHECK(same(x.target, y.target));
    CHECK_FALSE(same(x.input, z.input));
    const int64_t t = x.input.size(1);
    CHECK(x.input.shape() == Shape{5, t, task.inputs});
    CHECK(x.target.shape() == Shape{5, t, task.outputs});
    CHECK(x.mask.shape() == Shape{5, t});
    CHECK(binary(x.target));
    CHECK(binary(x.mask));
    CHECK(total(x.target * (1 - unsqueeze(x.mask, 2))) == 0);
    CHECK_FALSE(same(narrow(x.target, 0, 0, 1), narrow(x.target, 0, 1, 1)));
    CHECK_THROWS_AS(task.draw_length(5, 0, a), Error);
    CHECK_THROWS_AS(task.draw_length(0, 5, a), Error);
  }
  CHECK_THROWS_WITH_AS(sequence_task("add"), doctest::Contains("no task add; there are copy"),
                       Error);
  CHECK_THROWS_AS(copy_task({.bits = 0}), Error);
  CHECK_THROWS_AS(copy_task({.lengths = {3, 2}}), Error);
}

TEST_CASE("sequence tasks: lengths are drawn uniformly, both ends included") {
  const SequenceTask task = copy_task({.lengths = {3, 6}});
  std::map<int64_t, int> seen;
  Rng rng(1);
  for (int i = 0; i < 400; ++i) ++seen[(task.draw(1, rng).input.size(1) - 1) / 2];
  CHECK(seen.size() == 4);
  for (int64_t length = 3; length <= 6; ++length) CHECK(seen[length] > 60);  // expected: 100
}

TEST_CASE("sequence tasks: copy has the same vectors as input and target") {
  Rng rng(2);
  const SequenceBatch b = copy_task().draw_length(3, 7, rng);
  const Tensor vectors = channels(steps(b.input, 0, 7), 0, 8);
  CHECK(binary(b.input));
  CHECK(std::abs(total(vectors) - 84) < 4 * std::sqrt(42.0));  // 168 fair bits
  CHECK(same(steps(b.target, 8, 7), vectors));
  CHECK(same(select(select(b.input, 1, 7), 1, 8), ones({3})));
  CHECK(total(b.input) == total(vectors) + 3);  // the input has nothing else
  CHECK(total(b.mask) == 3 * 7);
  CHECK(total(steps(b.mask, 8, 7)) == 3 * 7);
}

TEST_CASE("sequence tasks: repeat copy has its vectors n times, then an end mark") {
  Rng rng(3);
  const SequenceBatch b = repeat_copy_task({.repeats = {4, 4}}).draw_length(2, 3, rng);
  CHECK(b.input.shape() == Shape{2, 17, 10});
  const Tensor vectors = channels(steps(b.input, 0, 3), 0, 8);
  for (int64_t i = 0; i < 4; ++i)
    CHECK(same(channels(steps(b.target, 4 + 3 * i, 3), 0, 8), vectors));
  CHECK(same(select(select(b.target, 1, 16), 1, 8), ones({2})));  // the end
  CHECK(total(channels(b.target, 8, 1)) == 2);
  CHECK(total(b.mask) == 2 * 13);
  const double scaled = b.input.to_vector<double>()[3 * 10 + 9];
  CHECK(scaled == doctest::Approx((4 - 5.5) / std::sqrt(8.25)));
  double mean = 0, square = 0;  // over the repeats of training
  for (int64_t n = 1; n <= 10; ++n) {
    const SequenceBatch one = repeat_copy_task({.repeats = {n, n}}).draw_length(1, 1, rng);
    const double x = one.input.to_vector<double>()[1 * 10 + 9];
    mean += x / 10;
    square += x * x / 10;
  }
  CHECK(std::abs(mean) < 1e-6);
  CHECK(square == doctest::Approx(1));
}

TEST_CASE("sequence tasks: recall asks for the item that follows another") {
  Rng rng(4);
  std::map<int, int> asked;
  for (int trial = 0; trial < 60; ++trial) {
    const SequenceBatch b = recall_task().draw_length(1, 5, rng);
    CHECK(b.input.shape() == Shape{1, 28, 8});
    CHECK(total(channels(b.input, 6, 1)) == 5);
    CHECK(total(channels(b.input, 7, 1)) == 2);
    const Tensor question = channels(steps(b.input, 21, 3), 0, 6);
    const Tensor answer = steps(b.target, 25, 3);
    int found = 0;
    for (int64_t i = 0; i < 4; ++i)
      if (same(channels(steps(b.input, 4 * i + 1, 3), 0, 6), question)) {
        ++found;
        ++asked[static_cast<int>(i)];
        CHECK(same(channels(steps(b.input, 4 * i + 5, 3), 0, 6), answer));
      }
    CHECK(found == 1);  // 18 random bits are hardly ever equal
    CHECK(total(b.mask) == 3);
    CHECK(total(channels(steps(b.input, 24, 4), 0, 7)) == 0);
  }
  CHECK(asked.size() == 4);
  CHECK_THROWS_WITH_AS(recall_task().draw_length(1, 1, rng), doctest::Contains("two items"), Error);
}

TEST_CASE("sequence tasks: sort has the vectors of highest priority in order") {
  Rng rng(5);
  const SequenceBatch b = sort_task().draw(1, rng);
  CHECK(b.input.shape() == Shape{1, 37, 10});
  const auto in = b.input.to_vector<double>(), out = b.target.to_vector<double>();
  std::vector<std::pair<double, int>> order;
  for (int i = 0; i < 20; ++i) {
    const double priority = in[static_cast<size_t>(i * 10 + 8)];
    CHECK(std::abs(priority) <= 1);
    order.emplace_back(-priority, i);
  }
  std::sort(order.begin(), order.end());
  for (int i = 0; i < 16; ++i)
    for (int bit = 0; bit < 8; ++bit)
      CHECK(out[static_cast<size_t>((21 + i) * 8 + bit)] ==
            in[static_cast<size_t>(order[static_cast<size_t>(i)].second * 10 + bit)]);
  CHECK(total(b.mask) == 16);
  CHECK(sort_task().draw_length(2, 40, rng).target.shape() == Shape{2, 73, 8});
}

// A context of one bit: after a 0 comes a 1 with probability p0, after a 1 with p1.
TEST_CASE("sequence tasks: n-grams follow a random table from the arcsine distribution") {
  Rng rng(6);
  const SequenceTask task = ngram_task({.context = 1, .lengths = {1000, 1000}});
  const SequenceBatch b = task.draw(200, rng);
  CHECK(same(steps(b.input, 1, 999), steps(b.target, 0, 999)));
  CHECK(total(steps(b.input, 0, 1)) == 0);
  const auto bits = b.target.to_vector<double>();
  double square = 0, fourth = 0;
  int64_t rows = 0;
  for (size_t row = 0; row < 200; ++row) {
    double after = 0, ones = 0;  // number of bits after a 1; of ones among them
    for (size_t i = 1; i < 1000; ++i)
      if (bits[row * 1000 + i - 1] > 0.5) {
        ++after;
        ones += bits[row * 1000 + i];
      }
    if (after < 100) continue;
    ++rows;
    const double centred = ones / after - 0.5;
    square += centred * centred;
    fourth += std::pow(centred, 4);
  }
  REQUIRE(rows > 100);
  // Rows with few ones are left out, so p is rather large. It is far from 1/2, as the arcsine
  // distribution says: E (p - 1/2)^2 = 1/8 and E (p - 1/2)^4 = 3/128. A uniform p gives 1/12 and
  // 1/80.
  CHECK(square / static_cast<double>(rows) > 0.1);
  CHECK(fourth / static_cast<double>(rows) > 0.0185);
}

TEST_CASE("sequence tasks: the best predictor of n-grams beats changed predictors") {
  SequenceBatch b;
  b.target = reshape(tensor({0, 1, 1, 1, 0, 1}, {6}), {1, 6, 1});
  b.mask = ones({1, 6});
  // Each context and the bits seen after it so far: (0: none) (1: none) (1: 1) (1: 1 1) (0: 1).
  const double l = std::log(3.0);
  const auto got = best_ngram_logits(b, 1).to_vector<double>();
  const std::vector<double> want = {0, 0, 0, l, std::log(5.0), l};
  for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]));
  // Better than zeros, than scaled logits and than a shorter context.
  Rng rng(7);
  const SequenceBatch many = ngram_task().draw(300, rng);
  const double best = cost_in_bits(best_ngram_logits(many), many);
  CHECK(best < 170);
  CHECK(best < cost_in_bits(best_ngram_logits(many) * 0.8, many));
  CHECK(best < cost_in_bits(best_ngram_logits(many) * 1.2, many));
  CHECK(best < cost_in_bits(best_ngram_logits(many, 4), many));
  CHECK(cost_in_bits(zeros_like(many.target), many) == doctest::Approx(200));
  CHECK_THROWS_AS(best_ngram_logits(many, 0), Error);
  CHECK_THROWS_AS(ngram_task({.context = 30}), Error);
}

TEST_CASE("sequence tasks: costs and wrong bits count only where the mask is 1") {
  SequenceBatch b;
  b.target = tensor({1, 0, 1, 1, 0, 0, 1, 0}, {2, 2, 2});
  b.mask = tensor({0, 1, 1, 1}, {2, 2});
  Tensor logits = tensor({9, 9, 2, -1, -3, 4, 1, 0.5}, {2, 2, 2}).set_requires_grad();
  auto nats = [](double logit, double target) {
    return std::log1p(std::exp(target > 0 ? -logit : logit));
  };
  const double want =
      (nats(2, 1) + nats(-1, 1) + nats(-3, 0) + nats(4, 0) + nats(1, 1) + nats(0.5, 0)) / 2;
  Tensor cost = cost_in_nats(logits, b);
  CHECK(cost.item() == doctest::Approx(want));
  CHECK(cost_in_bits(logits, b) == doctest::Approx(want / std::log(2.0)));
  CHECK(wrong_bits(logits, b).to_vector<int>() == std::vector<int>{1, 2});
  cost.backward();
  const auto g = logits.grad().to_vector<double>();
  CHECK(g[0] == 0);
  CHECK(g[2] == doctest::Approx((1 / (1 + std::exp(-2.0)) - 1) / 2));
  CHECK_THROWS_WITH_AS(cost_in_nats(zeros({2, 2, 1}), b),
                       doctest::Contains("must have the shape (2, 2, 2)"), Error);
}

}  // namespace tern::datasets::test_sequence_tasks
