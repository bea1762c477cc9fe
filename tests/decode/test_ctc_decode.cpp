// CTC decoding against the sum over all paths, and against ctc_loss.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tern/core/base/rng.h"
#include "tern/core/ops/losses/losses.h"
#include "tern/decode/ctc.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_ctc_decode {
namespace {

using decoding::ctc_beam_search;
using decoding::ctc_greedy;
using decoding::CtcHypothesis;
using Symbols = std::vector<int64_t>;

using test::kInf;

/// All paths through `length` steps of sample n of x (T, N, C): the probability of every word that
/// they spell, and the word and log probability of the best path.
struct AllPaths {
  std::map<Symbols, double> words;
  CtcHypothesis best{{}, -kInf};

  AllPaths(const Tensor& x, int64_t n, int64_t length, int64_t blank) {
    const std::vector<double> p = x.to_vector<double>();
    const int64_t samples = x.size(1), classes = x.size(2);
    const auto paths = static_cast<int64_t>(
        std::llround(std::pow(static_cast<double>(classes), static_cast<double>(length))));
    for (int64_t path = 0; path < paths; ++path) {
      Symbols word;
      double log_p = 0;
      int64_t before = -1;
      for (int64_t t = 0, rest = path; t < length; ++t, rest /= classes) {
        const int64_t c = rest % classes;
        log_p += p[static_cast<size_t>((t * samples + n) * classes + c)];
        if (c != blank && c != before) word.push_back(c);
        before = c;
      }
      words[word] += std::exp(log_p);
      if (log_p > best.log_prob) best = {word, log_p};
    }
  }

  std::vector<std::pair<double, Symbols>> ranked() const {
    std::vector<std::pair<double, Symbols>> list;
    for (const auto& [word, p] : words)
      if (p > 0) list.push_back({-std::log(p), word});
    std::sort(list.begin(), list.end());
    return list;
  }
};

Tensor random_log_probs(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  return log_softmax(2 * randn(shape, rng, DType::f64), -1);
}

TEST_CASE("ctc decoding: a wide beam finds the words of all paths, in order") {
  for (int64_t blank : {0, 1, 2})
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const std::vector<int64_t> lengths{5, 3, 1, 0};
      Tensor x = random_log_probs({5, 4, 3}, seed);
      auto lists = ctc_beam_search(x, lengths, {.blank = blank, .beam = 100, .n_best = 100});
      auto greedy = ctc_greedy(x, lengths, {.blank = blank});
      constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
      const auto all_lists = ctc_beam_search(x, lengths, {.blank = blank, .beam = kAll});
      REQUIRE(lists.size() == 4);
      REQUIRE(greedy.size() == 4);
      for (size_t n = 0; n < 4; ++n) {
        const AllPaths all(x, static_cast<int64_t>(n), lengths[n], blank);
        const auto want = all.ranked();
        REQUIRE(lists[n].size() == want.size());
        CHECK(all_lists[n][0].symbols == want[0].second);
        for (size_t i = 0; i < want.size(); ++i) {
          CHECK(lists[n][i].symbols == want[i].second);
          CHECK(lists[n][i].log_prob == doctest::Approx(-want[i].first).epsilon(1e-12));
        }
        CHECK(greedy[n].symbols == all.best.symbols);
        CHECK(greedy[n].log_prob == doctest::Approx(all.best.log_prob).epsilon(1e-12));
      }
    }
}

TEST_CASE("ctc decoding: a beam's scores are lower bounds of -ctc_loss") {
  Tensor x = random_log_probs({30, 2, 6}, 9);
  for (int64_t beam : {1, 2, 5, 64}) {
    auto lists = ctc_beam_search(x, {30, 20}, {.beam = beam, .n_best = beam});
    for (size_t n = 0; n < 2; ++n) {
      CHECK(lists[n].size() == static_cast<size_t>(beam));
      for (size_t i = 0; i < lists[n].size(); ++i) {
        const CtcHypothesis& h = lists[n][i];
        const int64_t size = std::ssize(h.symbols), steps = n == 0 ? 30 : 20;
        const double loss =
            ctc_loss(narrow(x, 1, static_cast<int64_t>(n), 1), tensor(h.symbols, {1, size}),
                     {steps}, {size}, {.reduction = Reduction::sum})
                .item();
        CHECK(h.log_prob <= -loss + 1e-9);
        if (i > 0) CHECK(h.log_prob <= lists[n][i - 1].log_prob);
        for (size_t j = 0; j < i; ++j) CHECK(lists[n][j].symbols != h.symbols);
      }
    }
  }
  // The beam sums over paths that the best path ignores (Graves et al. 2006, figure 2).
  Tensor two = log(tensor({.6, .4, .6, .4}, {2, 1, 2}, DType::f64));
  CHECK(ctc_greedy(two)[0].symbols.empty());
  CHECK(ctc_greedy(two)[0].log_prob == doctest::Approx(std::log(.36)));
  CHECK(ctc_beam_search(two)[0][0].symbols == Symbols{1});
  CHECK(ctc_beam_search(two)[0][0].log_prob == doctest::Approx(std::log(.64)));
}

TEST_CASE("ctc decoding: impossible classes, ties, layouts, types") {
  // A certain path: a repeated symbol with a blank between, and one without.
  const Symbols path{1, 0, 1, 1, 2, 0};
  Tensor certain = log(one_hot(tensor(path, {6}), 3, DType::f64));
  for (const CtcHypothesis& h : {ctc_greedy(certain)[0], ctc_beam_search(certain)[0][0]}) {
    CHECK(h.symbols == Symbols{1, 1, 2});
    CHECK(h.log_prob == 0);
  }
  CHECK(ctc_beam_search(certain, {}, {.beam = 5, .n_best = 5})[0].size() == 1);
  // Order of equals: the unchanged prefix, then the lower symbol.
  Tensor even = log_softmax(zeros({1, 1, 3}, DType::f64), -1);
  auto list = ctc_beam_search(even, {}, {.beam = 3, .n_best = 3})[0];
  CHECK(list[0].symbols.empty());
  CHECK(list[1].symbols == Symbols{1});
  CHECK(list[2].symbols == Symbols{2});
  CHECK(ctc_greedy(even)[0].symbols.empty());
  CHECK(ctc_greedy(even, {}, {.blank = 2})[0].symbols == Symbols{0});

  Tensor x = random_log_probs({7, 3, 4}, 5);
  auto words = [](const Tensor& p) {
    std::vector<Symbols> all;
    for (const auto& h : ctc_greedy(p)) all.push_back(h.symbols);
    for (const auto& l : ctc_beam_search(p, {}, {.beam = 4, .n_best = 4}))
      for (const auto& h : l) all.push_back(h.symbols);
    return all;
  };
  Tensor turned = transpose(transpose(x, 0, 1).contiguous(), 0, 1);
  CHECK(words(turned) == words(x));
  CHECK(words(x.to(DType::f32)) == words(x));
  CHECK(words(flip(flip(x, {0, 2}).contiguous(), {0, 2}).set_requires_grad()) == words(x));
  for (int64_t n = 0; n < 3; ++n) {  // one sample, without the axis of samples
    CHECK(ctc_greedy(select(x, 1, n))[0].symbols == ctc_greedy(x)[static_cast<size_t>(n)].symbols);
  }
  // Steps after a length are not read.
  Tensor padded = cat({x, full({2, 3, 4}, std::nan(""), DType::f64)}, 0);
  CHECK(ctc_beam_search(padded, {7, 7, 7})[2][0].symbols == ctc_beam_search(x)[2][0].symbols);
  CHECK(ctc_greedy(zeros({4, 0, 3})).empty());
  CHECK(ctc_beam_search(zeros({0, 2, 3}))[1][0].symbols.empty());
}

TEST_CASE("ctc decoding: the same on any number of threads") {
  Tensor x = random_log_probs({60, 9, 40}, 11);
  test::check_threads({3}, [&] {
    std::vector<double> out;
    for (const auto& h : ctc_greedy(x)) out.push_back(h.log_prob);
    for (const auto& list : ctc_beam_search(x, {}, {.beam = 8, .n_best = 8}))
      for (const auto& h : list) {
        out.push_back(h.log_prob);
        for (int64_t s : h.symbols) out.push_back(static_cast<double>(s));
      }
    return out;
  });
}

TEST_CASE("ctc decoding: invalid inputs are errors") {
  auto refused = [](const char* text, const auto& fn) {
    CHECK_THROWS_WITH_AS(fn(), doctest::Contains(text), Error);
  };
  Tensor x = random_log_probs({4, 2, 3}, 1);
  auto with = [&](double value) {
    Tensor y = x.clone();
    fill_(y[2][1], value);
    return y;
  };
  refused(
      "ctc_greedy: the log probability of class 0 must be a number below infinity, got nan at step "
      "2 of sample 1",
      [&] { return ctc_greedy(with(std::nan(""))); });
  refused(
      "ctc_beam_search: the log probability of class 0 must be a number below infinity, got inf at "
      "step 2 of sample 1",
      [&] { return ctc_beam_search(with(kInf)); });
  refused("ctc_beam_search: no class is possible at step 2 of sample 1",
          [&] { return ctc_beam_search(with(-kInf)); });
  refused("must be (T, N, C) or (T, C), got (4,)", [] { return ctc_greedy(zeros({4})); });
  refused("needs floating log_probs, got i64", [] {
    return ctc_greedy(zeros({4, 3}, DType::i64));
  });
  refused("blank 3 is outside [0, 3)", [&] { return ctc_greedy(x, {}, {.blank = 3}); });
  refused("2 samples, but 1 lengths", [&] { return ctc_greedy(x, {4}); });
  refused("length 5 of sample 1 is outside [0, 4]", [&] { return ctc_beam_search(x, {4, 5}); });
  refused("n_best 3 must be in [1, beam], the beam is 2",
          [&] { return ctc_beam_search(x, {}, {.beam = 2, .n_best = 3}); });
  refused("n_best 0", [&] { return ctc_beam_search(x, {}, {.n_best = 0}); });
  refused("ctc_greedy: log_probs is undefined", [] { return ctc_greedy(Tensor()); });
}

}  // namespace
}  // namespace tern::test_ctc_decode
