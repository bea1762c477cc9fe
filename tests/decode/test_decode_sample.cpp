// Sampling: frequencies against known distributions and transformers' filters, penalties, seeds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "tern/core/base/error.h"
#include "tern/tests/decode/decode_chain.h"
#include "tern/tests/support/threads.h"

namespace tern::test_decode_sample {
using decoding::Hypothesis, decode_test::Chain, decode_test::constant, decode_test::kNever,
    decode_test::Tokens;

namespace {

constexpr int64_t kDraws = 20000;

std::vector<double> logits_of(std::vector<double> p) {
  for (double& x : p) x = std::log(x) + 0.7;  // any constant
  return p;
}

std::vector<int64_t> counts(const Chain& chain, decoding::SampleOptions o, uint64_t seed = 1) {
  o.begin = 0;
  o.max_length = 1;
  Rng rng(seed);
  std::vector<int64_t> n(chain.table.size(1));
  for (const Hypothesis& h : decoding::sample(chain, Chain::State{kDraws}, o, rng))
    ++n[h.tokens.front()];
  return n;
}

/// Checks that every count is within 5 standard deviations of its binomial (one in some 10^6 is
/// not), and 0 where p is 0.
void check_counts(const std::vector<int64_t>& n, std::vector<double> p) {
  REQUIRE(n.size() == p.size());
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (size_t i = 0; i < p.size(); ++i) {
    const double share = p[i] / total;
    const double expected = share * kDraws;
    CHECK(std::abs(static_cast<double>(n[i]) - expected) <= 5 * std::sqrt(expected * (1 - share)));
  }
}

/// The distribution of transformers' generate(): one filter after the other, each on all tokens.
std::vector<double> filtered(std::vector<double> x, const decoding::SampleOptions& o,
                             Tokens before) {
  if (o.repetition_window > 0 && std::ssize(before) > o.repetition_window)
    before.erase(before.begin(), before.end() - o.repetition_window);
  for (const int64_t token : std::set<int64_t>(before.begin(), before.end()))
    x[token] = x[token] > 0 ? x[token] / o.repetition_penalty : x[token] * o.repetition_penalty;
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v / o.temperature);
  std::multimap<double, size_t, std::greater<>> falling;
  for (size_t i = 0; i < x.size(); ++i) falling.emplace(x[i], i);
  auto keep = [&](auto wanted) {  // wanted(rank, total share of earlier ones, p / largest p)
    const std::vector<double> all = x;
    double before_it = 0, left = 0;
    int64_t rank = 0;
    for (const auto& [unused, i] : falling) {
      if (!wanted(rank++, before_it / sum, all[i] / falling.begin()->first)) x[i] = 0;
      before_it += all[i];
      left += x[i];
    }
    sum = left;
  };
  if (o.top_k > 0) keep([&](int64_t rank, double, double) { return rank < o.top_k; });
  keep([&](int64_t, double share, double) { return share < o.top_p; });
  keep([&](int64_t, double, double of_first) { return of_first >= o.min_p; });
  return x;
}

std::vector<Tokens> tokens_of(const std::vector<Hypothesis>& list) {
  std::vector<Tokens> out;
  for (const Hypothesis& h : list) out.push_back(h.tokens);
  return out;
}

}  // namespace

TEST_CASE("decode: samples have the frequencies of their distribution") {
  const std::vector<double> p{0.3, 0.05, 0.5, 0.15};
  const Chain chain = constant(logits_of(p));
  check_counts(counts(chain, {}), p);
  check_counts(counts(chain, {.temperature = 0.5}), {0.09, 0.0025, 0.25, 0.0225});
  check_counts(counts(chain, {.temperature = 1e9}), {1, 1, 1, 1});
  check_counts(counts(chain, {.top_k = 3}), {0.3, 0, 0.5, 0.15});
  check_counts(counts(chain, {.top_k = 9}), p);
  check_counts(counts(chain, {.top_p = 0.45}), {0, 0, 1, 0});
  check_counts(counts(chain, {.top_p = 0.6}), {0.3, 0, 0.5, 0});
  check_counts(counts(chain, {.top_p = 0.9}), {0.3, 0, 0.5, 0.15});
  // top_p is a share of what top_k left: 0.5 / 0.8 > 0.6.
  check_counts(counts(chain, {.top_k = 2, .top_p = 0.6}), {0, 0, 1, 0});
  check_counts(counts(chain, {.forbid = {2}}), {0.3, 0.05, 0, 0.15});
  check_counts(counts(chain, {.top_k = 2, .forbid = {2}}), {0.3, 0, 0, 0.15});
  check_counts(counts(chain, {.top_p = 0.55, .forbid = {2}}), {1, 0, 0, 0});
  check_counts(counts(constant({1, kNever, 1, 1}), {}), {1, 0, 1, 1});
  check_counts(counts({chain.table.to(DType::f32)}, {}), p);
}

TEST_CASE("decode: filters apply in order, with a penalty for earlier tokens") {
  const std::vector<double> logits{1.2, -0.6, 2, 0.4, -1.1, 0, 1.7, -0.1};
  const Tokens before{2, 1, 3, 3, 0};  // 0 is the token of the first step
  // The results of transformers 5.23, with its processors in the order of its generate().
  const std::vector<std::pair<decoding::SampleOptions, std::vector<double>>> ways{
      {{.min_p = 0.3}, {0.205159, 0, 0.45659, 0, 0, 0, 0.33825, 0}},
      {{.min_p = 1}, {0, 0, 1, 0, 0, 0, 0, 0}},
      {{.temperature = 3, .min_p = 0.4},
       {0.163389, 0.08967, 0.213321, 0.125144, 0, 0.109523, 0.193021, 0.105932}},
      {{.top_k = 5, .min_p = 0.2}, {0.187843, 0, 0.418053, 0.084403, 0, 0, 0.309701, 0}},
      {{.top_p = 0.83, .min_p = 0.4}, {0.205159, 0, 0.45659, 0, 0, 0, 0.33825, 0}},
      {{.top_k = 7, .top_p = 0.95, .min_p = 0.1},
       {0.169569, 0, 0.377382, 0.076192, 0, 0.051073, 0.279571, 0.046213}},
      {{.repetition_penalty = 1.7},
       {0.138684, 0.024688, 0.222025, 0.086627, 0.02279, 0.068465, 0.374772, 0.061949}},
      {{.repetition_penalty = 0.5},
       {0.144473, 0.009709, 0.715578, 0.029169, 0.004363, 0.013106, 0.071743, 0.011859}},
      {{.repetition_penalty = 1.7, .repetition_window = 1},
       {0.105683, 0.028633, 0.38551, 0.077833, 0.017367, 0.052173, 0.285593, 0.047208}},
      {{.repetition_penalty = 1.7, .repetition_window = 4},
       {0.108021, 0.019229, 0.394036, 0.067474, 0.017751, 0.053327, 0.291909, 0.048252}},
      {{.repetition_penalty = 1.7, .repetition_window = 400},
       {0.138684, 0.024688, 0.222025, 0.086627, 0.02279, 0.068465, 0.374772, 0.061949}},
      {{.top_k = 2, .repetition_penalty = 5}, {0, 0, 0.214165, 0, 0, 0, 0.785835, 0}},
      {{.temperature = 0.7, .top_p = 0.8, .min_p = 0.1, .repetition_penalty = 2},
       {0.131851, 0, 0.233481, 0, 0, 0, 0.634668, 0}}};
  for (auto [o, theirs] : ways) {
    o.prompts.assign(kDraws, Tokens(before.begin(), before.end() - 1));
    const std::vector<double> p = filtered(logits, o, before);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (size_t i = 0; i < p.size(); ++i)
      CHECK(std::abs(p[i] / sum - theirs[i]) < 0.51e-6);  // theirs have six digits
    check_counts(counts(constant(logits), o), p);
    check_counts(counts({constant(logits).table.to(DType::f32)}, o), p);
  }
  // top_p comes before min_p and keeps three tokens. After min_p it would keep two.
  const Chain chain = constant(logits_of({0.5, 0.3, 0.15, 0.05}));
  check_counts(counts(chain, {.top_p = 0.83, .min_p = 0.2}), {0.5, 0.3, 0.15, 0});
  check_counts(counts(chain, {.min_p = 0.2, .forbid = {0}}), {0, 0.3, 0.15, 0});
  // Impossible tokens stay impossible.
  check_counts(counts(constant({kNever, 1, kNever, 1}), {.repetition_penalty = 9}), {0, 1, 0, 1});
  Rng rng(1);
  for (const decoding::SampleOptions& wrong :
       std::vector<decoding::SampleOptions>{{.min_p = -0.1},
                                            {.min_p = 1.5},
                                            {.min_p = std::nan("")},
                                            {.repetition_penalty = 0},
                                            {.repetition_penalty = std::nan("")},
                                            {.repetition_window = -1},
                                            {.prompts = {{1}, {2}}, .begin = 0}})
    CHECK_THROWS_AS(decoding::sample(chain, Chain::State{1}, wrong, rng), Error);
}

TEST_CASE("decode: every sentence penalises its own tokens as they come") {
  Rng random(5);
  const int64_t words = 12;
  const Tensor table = randn({words, words}, random, DType::f64);
  const std::vector<Tokens> prompts{{3, 4}, {}, {5, 5, 6, 7}, {1}};
  const Tokens begin{0, 1, 2, 3};
  for (const int64_t window : {0, 1, 3}) {
    const decoding::SampleOptions o{.temperature = 0,
                                    .repetition_penalty = 3,
                                    .repetition_window = window,
                                    .prompts = prompts,
                                    .begin = begin,
                                    .end = 11,
                                    .max_length = 9,
                                    .forbid = {8}};
    const auto found = decoding::sample(Chain{table}, Chain::State{4}, o, random);
    for (size_t s = 0; s < 4; ++s) {
      Tokens text = prompts[s], want;
      text.push_back(begin[s]);
      double log_prob = 0;
      while (text.back() != 11 && std::ssize(want) < 9) {
        const Tensor row = table[text.back()];
        decoding::SampleOptions hot = o;
        hot.temperature = 1;
        std::vector<double> p = filtered(row.to_vector<double>(), hot, text);
        p[8] = 0;
        const int64_t token = std::max_element(p.begin(), p.end()) - p.begin();
        log_prob += log_softmax(row, 0)[token].item<double>();
        text.push_back(token);
        if (token != 11) want.push_back(token);
      }
      CHECK(found[s].tokens == want);
      CHECK(found[s].log_prob == doctest::Approx(log_prob));  // without the penalty
    }
    CHECK(tokens_of(found) !=
          tokens_of(decoding::greedy(Chain{table}, Chain::State{4},
                                     {.begin = begin, .end = 11, .max_length = 9, .forbid = {8}})));
  }
}

TEST_CASE("decode: top_p among many tokens draws only from the nucleus") {
  Rng rng(7);
  const int64_t words = 600;
  const Tensor logits = randn({1, words}, rng, DType::f64) * 0.5;
  std::vector<double> p = softmax(logits, -1).to_vector<double>();
  std::vector<int64_t> order(words);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return p[a] > p[b]; });
  double sum = 0;
  int64_t size = 0;
  while (sum < 0.7) sum += p[order[size++]];
  REQUIRE(size > 256);  // more than the first tries look at
  for (int64_t i = size; i < words; ++i) p[order[i]] = 0;
  check_counts(counts({expand(logits, {words, words})}, {.top_p = 0.7}), p);
}

TEST_CASE("decode: sampling with only one choice is greedy") {
  Rng rng(8);
  const Chain chain{randn({9, 9}, rng)};
  const Chain::State six{6};
  const Tokens begin{0, 1, 2, 3, 4, 5};
  const auto best = decoding::greedy(chain, six, {.begin = begin, .end = 8, .max_length = 7});
  const std::vector<decoding::SampleOptions> certain{
      {.temperature = 0}, {.temperature = 1e-6}, {.top_k = 1}, {.top_p = 1e-9}};
  for (decoding::SampleOptions o : certain) {
    o.begin = begin;
    o.end = 8;
    o.max_length = 7;
    const auto drawn = decoding::sample(chain, six, o, rng);
    CHECK(tokens_of(drawn) == tokens_of(best));
    for (size_t s = 0; s < 6; ++s) CHECK(drawn[s].log_prob == best[s].log_prob);
  }
}

TEST_CASE("decode: samples depend only on seed and sentence, not on threads") {
  Rng random(9);
  const int64_t words = 1500;  // enough for two threads
  const Chain chain{randn({words, words}, random)};
  const Tensor log_p = log_softmax(chain.table.to(DType::f64), -1);
  const std::vector<decoding::SampleOptions> ways{{}, {.top_k = 50, .top_p = 0.9}};
  for (const decoding::SampleOptions& cut : ways) {
    decoding::SampleOptions o = cut;
    o.begin = 0;
    o.max_length = 5;
    auto draw = [&](int64_t sentences, uint64_t seed) {
      Rng rng(seed);
      return decoding::sample(chain, Chain::State{sentences}, o, rng);
    };
    const auto drawn = draw(40, 1);
    CHECK(tokens_of(draw(40, 1)) == tokens_of(drawn));
    CHECK(tokens_of(draw(40, 2)) != tokens_of(drawn));
    CHECK(drawn[0].tokens != drawn[1].tokens);
    {
      const test::Threads other(num_threads() == 1 ? 2 : 1);
      CHECK(tokens_of(draw(40, 1)) == tokens_of(drawn));
    }
    const auto fewer = tokens_of(draw(3, 1)), all = tokens_of(drawn);
    CHECK(std::equal(fewer.begin(), fewer.end(), all.begin()));
    for (const Hypothesis& h : draw(3, 1)) {
      double sum = 0;
      int64_t last = 0;
      for (int64_t t : h.tokens) {
        sum += log_p[last][t].item();
        last = t;
      }
      CHECK(std::abs(h.log_prob - sum) < 1e-5);  // five f32 logarithms of sums
    }
  }
  Rng rng(3);
  const decoding::SampleOptions o{.begin = 0, .max_length = 5};
  const auto first = decoding::sample(chain, Chain::State{4}, o, rng);
  CHECK(tokens_of(decoding::sample(chain, Chain::State{4}, o, rng)) != tokens_of(first));
}

TEST_CASE("sample and greedy: on_token gets each token at once, and may end the sentence") {
  Rng rng(4);
  const Chain chain{randn({9, 9}, rng)};
  const Chain::State five{5};
  const decoding::SampleOptions all{.begin = 0, .max_length = 6};
  const Rng start(8);
  Rng a = start, b = start;
  const auto whole = decoding::sample(chain, five, all, a);
  std::vector<std::vector<int64_t>> told(5);
  decoding::SampleOptions cut = all;
  cut.on_token = [&](int64_t sentence, int64_t token) {
    told[sentence].push_back(token);
    return std::ssize(told[sentence]) <= sentence;
  };
  const auto found = decoding::sample(chain, five, cut, b);
  for (size_t s = 0; s < 5; ++s) {
    const std::vector<int64_t> want(whole[s].tokens.begin(),
                                    whole[s].tokens.begin() + static_cast<int64_t>(s) + 1);
    CHECK(found[s].tokens == want);
    CHECK(told[s] == want);
    CHECK_FALSE(found[s].finished);
  }
  int64_t count = 0, tokens = 0;
  const auto best =
      decoding::greedy(chain, five,
                       {.begin = std::vector<int64_t>{0, 1, 2, 3, 4},
                        .end = argmax(narrow(chain.table, 0, 3, 1), 1).item<int64_t>(),
                        .max_length = 3,
                        .on_token = [&](int64_t, int64_t) { return ++count > 0; }});
  for (const auto& h : best) tokens += std::ssize(h.tokens) + (h.finished ? 1 : 0);
  CHECK(best[3].finished);
  CHECK(count == tokens);
}

}  // namespace tern::test_decode_sample
