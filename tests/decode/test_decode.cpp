// Greedy and beam search with small table models, against naive searches and all sequences.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tern/decode/beam_search.h"
#include "tern/decode/sampling.h"
#include "tern/tests/decode/decode_chain.h"
#include "tern/tests/support/errors.h"

namespace tern::test_decode {
using test::contains, test::error_of;

using decoding::Hypothesis, decode_test::Chain, decode_test::constant, decode_test::kNever,
    decode_test::Tokens;

namespace {

/// A model whose logits depend on the sentence and on all its tokens: each sentence has a tree, and
/// token t leads from a node to node V + t + 1. So a state that does not follow its hypothesis is
/// found. `begin` is V, a token without logits.
struct Tree {
  int64_t vocab, nodes;
  Tensor table;  // (sentences * nodes, V)

  Tree(int64_t vocab, int64_t depth, int64_t sentences, Rng& rng) : vocab(vocab), nodes(1) {
    for (int64_t i = 0; i < depth; ++i) nodes = nodes * vocab + 1;
    table = randn({sentences * nodes, vocab}, rng, DType::f64) * 1.5;
  }
  struct State {
    Tensor sentence, node;  // i64 (B)
    int64_t batch() const { return sentence.size(0); }
    State select_rows(const Tensor& rows) const {
      return {index_select(sentence, 0, rows), index_select(node, 0, rows)};
    }
  };
  struct Step {
    Tensor logits;
    State state;
  };
  State start(int64_t sentences) const {
    return {arange(0, sentences), zeros({sentences}, DType::i64)};
  }
  Step step(const State& state, const Tensor& tokens) const {
    Tensor next = where(eq(tokens, vocab), state.node, state.node * vocab + tokens + 1);
    return {index_select(table, 0, state.sentence * nodes + next), {state.sentence, next}};
  }
  /// log p(. | tokens) of a sentence, without Tensor ops.
  std::vector<double> log_probs(int64_t sentence, const Tokens& tokens) const {
    int64_t node = 0;
    for (int64_t t : tokens) node = node * vocab + t + 1;
    const double* x = table.data<double>() + (sentence * nodes + node) * vocab;
    double sum = 0;
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(x[i]);
    std::vector<double> out(vocab);
    for (int64_t i = 0; i < vocab; ++i) out[i] = x[i] - std::log(sum);
    return out;
  }
};

using LogProbs = std::function<std::vector<double>(const Tokens&)>;

double score_of(const Hypothesis& h, double alpha) {
  const double n = static_cast<double>(h.tokens.size()) + h.finished;
  return h.log_prob / std::pow((5 + n) / 6, alpha);
}

void sort_by_score(std::vector<Hypothesis>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
}

/// All possible sequences, best first.
std::vector<Hypothesis> every_sequence(const LogProbs& p, int64_t end, int64_t max_length,
                                       double alpha) {
  std::vector<Hypothesis> out;
  std::function<void(Hypothesis)> go = [&](Hypothesis h) {
    h.score = score_of(h, alpha);
    if (h.finished || std::ssize(h.tokens) == max_length) return out.push_back(h);
    const std::vector<double> next = p(h.tokens);
    for (int64_t t = 0; t < std::ssize(next); ++t) {
      Hypothesis longer = h;
      longer.log_prob += next[t];
      longer.finished = t == end;
      if (t != end) longer.tokens.push_back(t);
      go(longer);
    }
  };
  go({});
  sort_by_score(out);
  return out;
}

/// The search that beam_search.h describes, without its second stop rule, which changes nothing.
std::vector<Hypothesis> naive_beam(const LogProbs& p, const decoding::BeamOptions& o,
                                   int64_t max_length) {
  std::vector<Hypothesis> running{{}}, ended;
  for (int64_t step = 1; step <= max_length; ++step) {
    std::vector<Hypothesis> all;
    for (const Hypothesis& h : running) {
      const std::vector<double> next = p(h.tokens);
      for (int64_t t = 0; t < std::ssize(next); ++t) {
        if (std::count(o.forbid.begin(), o.forbid.end(), t)) continue;
        all.push_back({h.tokens, h.log_prob + next[t], 0, t == o.end});
        if (t != o.end) all.back().tokens.push_back(t);
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) {
      return a.log_prob > b.log_prob;
    });
    running.clear();
    for (int64_t i = 0; i < std::ssize(all) && std::ssize(running) < o.beam; ++i) {
      if (!all[i].finished) running.push_back(all[i]);
      if (all[i].finished && i < o.beam) ended.push_back(all[i]);
    }
    if (step == max_length) ended.insert(ended.end(), running.begin(), running.end());
    if (std::ssize(ended) >= o.beam) break;
  }
  for (Hypothesis& h : ended) h.score = score_of(h, o.alpha);
  sort_by_score(ended);
  if (std::ssize(ended) > o.n_best) ended.resize(o.n_best);
  return ended;
}

void check_same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].tokens == wanted[i].tokens);
    CHECK(got[i].finished == wanted[i].finished);
    CHECK(got[i].log_prob == doctest::Approx(wanted[i].log_prob).epsilon(1e-10));
    CHECK(got[i].score == doctest::Approx(wanted[i].score).epsilon(1e-10));
  }
}

}  // namespace

TEST_CASE("decode: a beam that holds all sequences finds them in order") {
  Rng rng(1);
  const Tokens lengths{4, 3, 4, 1, 0};
  for (double alpha : {0.0, 0.6, 2.0}) {
    const Tree tree(3, 4, 5, rng);
    decoding::BeamOptions o{.beam = 81, .alpha = alpha, .n_best = 81, .begin = 3, .end = 1};
    o.max_length = lengths;
    for (int64_t n_best : {81, 3}) {
      o.n_best = n_best;
      const auto lists = decoding::beam_search(tree, tree.start(5), o);
      REQUIRE(lists.size() == 5);
      for (int64_t s = 0; s < 5; ++s) {
        auto p = [&](const Tokens& tokens) { return tree.log_probs(s, tokens); };
        std::vector<Hypothesis> all = every_sequence(p, 1, lengths[s], alpha);
        if (std::ssize(all) > n_best) all.resize(n_best);
        check_same(lists[s], all);
      }
    }
  }
}

TEST_CASE("decode: beam search matches its description") {
  Rng rng(2);
  for (int64_t beam : {1, 2, 3, 5})
    for (double alpha : {0.0, 1.0}) {
      const Tree tree(5, 5, 20, rng);
      decoding::BeamOptions o{.beam = beam,
                              .alpha = alpha,
                              .n_best = std::min<int64_t>(beam, 2),
                              .begin = 5,
                              .end = 4,
                              .max_length = 5};
      o.forbid = {2};
      const auto lists = decoding::beam_search(tree, tree.start(20), o);
      for (int64_t s = 0; s < 20; ++s) {
        auto p = [&](const Tokens& tokens) { return tree.log_probs(s, tokens); };
        check_same(lists[s], naive_beam(p, o, 5));
      }
    }
}

TEST_CASE("decode: beam search among many tokens") {
  Rng rng(3);
  const int64_t words = 700;
  for (DType type : {DType::f32, DType::f64}) {
    const Chain chain{randn({words, words}, rng, type)};
    const Tensor log_p = log_softmax(chain.table.to(DType::f64), -1);
    auto p = [&](const Tokens& tokens) {
      return log_p[tokens.empty() ? 0 : tokens.back()].to_vector<double>();
    };
    const decoding::BeamOptions o{
        .beam = 4, .alpha = 0.5, .n_best = 4, .begin = 0, .end = 1, .max_length = 6};
    const auto got = decoding::beam_search(chain, Chain::State{1}, o).front();
    const auto wanted = naive_beam(p, o, 6);
    REQUIRE(got.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(got[i].tokens == wanted[i].tokens);
      // A sum of 700 exponentials in f32 is exact to some 1e-6, and so is its logarithm.
      CHECK(std::abs(got[i].log_prob - wanted[i].log_prob) < 6e-6);
    }
  }
}

TEST_CASE("decode: greedy equals a beam of 1; a batch equals its sentences one by one") {
  Rng rng(4);
  const Tree tree(4, 6, 30, rng);
  const auto best = decoding::greedy(tree, tree.start(30), {.begin = 4, .end = 0, .max_length = 6});
  decoding::BeamOptions one{.beam = 1, .alpha = 1, .begin = 4, .end = 0, .max_length = 6};
  decoding::BeamOptions three{
      .beam = 3, .alpha = 1, .n_best = 3, .begin = 4, .end = 0, .max_length = 6};
  const auto lists = decoding::beam_search(tree, tree.start(30), one);
  const auto wide = decoding::beam_search(tree, tree.start(30), three);
  bool some_end = false, some_do_not = false;
  for (int64_t s = 0; s < 30; ++s) {
    REQUIRE(lists[s].size() == 1);
    CHECK(lists[s][0].tokens == best[s].tokens);
    CHECK(lists[s][0].log_prob == best[s].log_prob);
    CHECK(lists[s][0].finished == best[s].finished);
    CHECK(best[s].score == best[s].log_prob);
    const Tree::State alone = tree.start(30).select_rows(tensor(Tokens{s}, {1}));
    check_same(decoding::greedy(tree, alone, {.begin = 4, .end = 0, .max_length = 6}), {best[s]});
    check_same(decoding::beam_search(tree, alone, three).front(), wide[s]);
    CHECK(wide[s][0].score >= wide[s][1].score);
    CHECK(wide[s][1].score >= wide[s][2].score);
    (best[s].finished ? some_end : some_do_not) = true;
  }
  CHECK(some_end);
  CHECK(some_do_not);
}

TEST_CASE("decode: finished sentences leave the batch") {
  std::vector<int64_t> batches;
  Chain chain{tensor({0, 9, 0, 0, 0, 9, 9, 0, 0}, {3, 3}), &batches};  // 0 -> 1 -> 2 -> 0 ...
  const auto best = decoding::greedy(chain, Chain::State{3},
                                     {.begin = Tokens{0, 1, 2}, .end = 2, .max_length = 4});
  CHECK(batches == Tokens{3, 2, 1});
  CHECK(best[0].tokens == Tokens{1});
  CHECK(best[1].tokens == Tokens{});
  CHECK(best[1].finished);
  CHECK(best[2].tokens == Tokens{0, 1});

  batches.clear();  // a beam of 3 has 1 row, then 2: the third token ends
  const auto lists = decoding::beam_search(
      chain, Chain::State{2},
      {.beam = 3, .begin = Tokens{0, 1}, .end = 2, .max_length = Tokens{4, 4}});
  CHECK(lists[0][0].tokens == Tokens{1});
  CHECK(lists[1][0].tokens == Tokens{});
  // The first end of the second sentence beats all other hypotheses: the sentence makes one step.
  CHECK(batches == Tokens{2, 2});

  batches.clear();
  const auto cut = decoding::greedy(chain, Chain::State{3},
                                    {.begin = 0, .max_length = Tokens{2, 0, 1}});  // no end token
  CHECK(batches == Tokens{2, 1});
  CHECK(cut[0].tokens == Tokens{1, 2});
  CHECK(cut[1].tokens == Tokens{});
  CHECK(cut[2].tokens == Tokens{1});
  for (const Hypothesis& h : cut) CHECK(!h.finished);
  CHECK(decoding::greedy(chain, Chain::State{0}, {.begin = 0, .end = 2}).empty());
  CHECK(decoding::beam_search(chain, Chain::State{0}, {.begin = 0, .end = 2}).empty());
}

TEST_CASE("decode: of equal tokens the lower is chosen, forbidden ones never") {
  const Chain even = constant({1, 1, 1, 1});
  const auto best = decoding::greedy(even, Chain::State{1}, {.begin = 0, .max_length = 2});
  CHECK(best[0].tokens == Tokens{0, 0});
  const decoding::BeamOptions o{
      .beam = 3, .n_best = 3, .begin = 0, .max_length = 2, .forbid = {0, 2}};
  const auto list = decoding::beam_search(even, Chain::State{1}, o).front();
  REQUIRE(list.size() == 3);
  CHECK(list[0].tokens == Tokens{1, 1});
  CHECK(list[1].tokens == Tokens{1, 3});
  CHECK(list[2].tokens == Tokens{3, 1});
  for (const Hypothesis& h : list)  // the model's own: a share of all four tokens
    CHECK(h.log_prob == doctest::Approx(2 * std::log(0.25)));
  const auto third = decoding::greedy(constant({3, kNever, 2, 1}), Chain::State{1},
                                      {.begin = 0, .max_length = 1, .forbid = {0}});
  CHECK(third[0].tokens == Tokens{2});
}

TEST_CASE("decode: without a limit of tokens beam search takes memory only for its steps") {
  const Chain chain{tensor({0, 3, 1, 1, 0, 3, 2, 1, 0}, {3, 3})};
  decoding::BeamOptions o{.beam = 3, .n_best = 3, .begin = 0, .end = 2, .max_length = 40};
  const auto limited = decoding::beam_search(chain, Chain::State{1}, o).front();
  o.max_length = std::numeric_limits<int64_t>::max();
  const auto lists = decoding::beam_search(chain, Chain::State{1}, o);
  check_same(lists.front(), limited);
  for (const Hypothesis& h : limited) CHECK(h.finished);  // long before the limit
}

TEST_CASE("decode: wrong options and logits are errors") {
  const Chain chain = constant({1, 2, 3});
  const Chain::State two{2};
  auto greedy = [&](const decoding::GreedyOptions& o, const Chain& m) {
    return error_of([&] { decoding::greedy(m, two, o); });
  };
  CHECK(contains(greedy({.end = 1}, chain), ".begin is -1"));
  CHECK(contains(greedy({.begin = 0, .end = 3}, chain), ".end is 3, but there are logits of 3"));
  CHECK(contains(greedy({.begin = 0, .max_length = Tokens{1, 2, 3}}, chain), "3 values for 2"));
  CHECK(contains(greedy({.begin = 0, .max_length = -2}, chain), ".max_length is -2"));
  CHECK(contains(greedy({.begin = 0, .forbid = {5}}, chain), ".forbid has 5"));
  CHECK(contains(greedy({.begin = 0, .forbid = {0, 1, 2}}, chain), "no token can follow"));
  const double nan = std::nan("");
  CHECK(contains(greedy({.begin = 0}, constant({1, nan, 3})), "sentence 0 at step 1 have a NaN"));
  CHECK(contains(greedy({.begin = 0}, constant({1, -kNever, 3})), "have +inf"));
  CHECK(contains(greedy({.begin = 0}, constant({kNever, kNever})), "nothing but -inf"));
  const Chain wide{zeros({3, 3, 1})};
  CHECK(contains(greedy({.begin = 0}, wide), "must give logits (B, V) with B = 2"));
  const Chain whole{zeros({3, 3}, DType::i64)};
  CHECK(contains(greedy({.begin = 0}, whole), "needs a floating tensor"));

  auto beam = [&](const decoding::BeamOptions& o) {
    return error_of([&] { decoding::beam_search(chain, two, o); });
  };
  CHECK(contains(beam({.beam = 0, .begin = 0}), ".beam is 0"));
  CHECK(contains(beam({.beam = 2, .n_best = 3, .begin = 0}), ".n_best is 3"));
  CHECK(contains(beam({.alpha = -1, .begin = 0}), ".alpha is -1"));
  CHECK(contains(beam({}), ".begin is -1"));
  Rng rng(1);
  auto sample = [&](const decoding::SampleOptions& o) {
    return error_of([&] { decoding::sample(chain, two, o, rng); });
  };
  CHECK(contains(sample({.temperature = -1, .begin = 0}), ".temperature is -1"));
  CHECK(contains(sample({.top_k = -1, .begin = 0}), ".top_k is -1"));
  CHECK(contains(sample({.top_p = 0, .begin = 0}), ".top_p is 0"));
  CHECK(contains(sample({.begin = -1}), ".begin is -1"));
}

}  // namespace tern::test_decode
