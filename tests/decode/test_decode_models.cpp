// Decoding the models of the zoo that compute step by step: with a cache as without, a batch as its
// sentences one by one.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/tape/autograd.h"
#include "tern/decode/beam_search.h"
#include "tern/decode/sampling.h"
#include "tern/models/transformer.h"
#include "tern/tests/models/zoo.h"
#include "tern/tests/support/threads.h"

namespace tern::test::test_decode_models {
using decoding::Hypothesis;
using Tokens = std::vector<int64_t>;

namespace {

constexpr int64_t kEnd = 2;
const Tokens kForbid{0, 1};

/// One sentence: what the model reads, and the tokens before those that it finds.
struct Sentence {
  const Model& row;
  const AnyModel& model;
  Tensors inputs;
  Tokens before;

  /// log p (V) of each next token after `before` and these tokens, by the whole model.
  std::vector<std::vector<double>> log_probs(const Tokens& tokens) const {
    Tokens read = before;
    read.insert(read.end(), tokens.begin(), tokens.end());
    Tensors x = inputs;
    x[static_cast<size_t>(row.causal)] = tensor(read, {1, std::ssize(read)});
    const Tensor p = log_softmax(model(x)[0], -1)[0];
    std::vector<std::vector<double>> out;
    for (int64_t t = std::ssize(before) - 1; t < std::ssize(read); ++t)
      out.push_back(p[t].to_vector<double>());
    return out;
  }
  Hypothesis greedy(int64_t most) const {
    Hypothesis h;
    while (!h.finished && std::ssize(h.tokens) < most) {
      const std::vector<double> p = log_probs(h.tokens).back();
      const auto best = std::max_element(p.begin() + kEnd, p.end());
      h.log_prob += *best;
      h.finished = best == p.begin() + kEnd;
      if (!h.finished) h.tokens.push_back(best - p.begin());
    }
    return h;
  }
  double log_prob_of(const Hypothesis& h) const {
    Tokens all = h.tokens;
    if (h.finished) all.push_back(kEnd);
    const auto p = log_probs(Tokens(all.begin(), all.end() - 1));
    double sum = 0;
    for (size_t i = 0; i < all.size(); ++i) sum += p[i][static_cast<size_t>(all[i])];
    return sum;
  }
};

void check_same(const Hypothesis& a, const Hypothesis& b) {
  CHECK(a.tokens == b.tokens);
  CHECK(a.finished == b.finished);
  CHECK(a.score == doctest::Approx(b.score).epsilon(1e-10));
}

}  // namespace

TEST_CASE("decode: the models of the zoo, with and without cache, batched and alone") {
  int rows = 0, rows_that_differ = 0;
  for_rows(zoo(), [&](const Model& row, Rng& rng) {
    const size_t causal = static_cast<size_t>(row.causal);
    if (!row.steps || row.inputs[causal].words == 0) return;
    const AnyModel model = evaluated(row, rng, DType::f64);
    NoGradGuard guard;
    const int64_t sentences = 4;
    const Tensors x = inputs_of(row, sentences, rng);
    // A text begins with two tokens that are read together, and cannot exceed its context.
    const int64_t known = row.lengths < 0 ? 2 : 0;
    const int64_t most = row.lengths < 0 ? std::min<int64_t>(7, x[causal].size(1) - known) : 7;
    const Tokens begin = select(x[causal], 1, known).to_vector<int64_t>();
    const AnyState state = model.start(begun(row, x, known));
    const decoding::GreedyOptions greedy{
        .begin = begin, .end = kEnd, .max_length = most, .forbid = kForbid};
    decoding::BeamOptions beam{.beam = 1,
                               .alpha = 0.6,
                               .begin = begin,
                               .end = kEnd,
                               .max_length = most,
                               .forbid = kForbid};
    const auto best = decoding::greedy(model, state, greedy);
    const auto one = decoding::beam_search(model, state, beam);
    beam.beam = beam.n_best = 4;
    const auto lists = decoding::beam_search(model, state, beam);
    const auto again = [&] {
      const test::Threads other(num_threads() == 1 ? 2 : 1);
      return decoding::beam_search(model, state, beam);
    }();
    const decoding::SampleOptions draw{.temperature = 0.7,
                                       .top_k = 5,
                                       .top_p = 0.9,
                                       .begin = begin,
                                       .end = kEnd,
                                       .max_length = most};
    Rng draws(3), same_draws(3);
    const auto drawn = decoding::sample(model, state, draw, draws);
    const auto drawn_again = decoding::sample(model, state, draw, same_draws);
    bool differ = false;
    for (int64_t i = 0; i < sentences; ++i) {
      const size_t s = static_cast<size_t>(i);
      Tensors alone = example(row, x, i);
      const Sentence sentence{row, model, alone,
                              narrow(alone[causal], 1, 0, known + 1).to_vector<int64_t>()};
      const Hypothesis naive = sentence.greedy(most);
      CHECK(best[s].tokens == naive.tokens);
      CHECK(best[s].finished == naive.finished);
      CHECK(best[s].log_prob == doctest::Approx(naive.log_prob).epsilon(1e-10));
      CHECK(one[s][0].tokens == best[s].tokens);
      CHECK(one[s][0].log_prob == best[s].log_prob);
      const AnyState from = model.start(begun(row, alone, known));
      decoding::GreedyOptions alone_greedy = greedy;
      decoding::BeamOptions alone_beam = beam;
      alone_greedy.begin = alone_beam.begin = begin[s];
      check_same(decoding::greedy(model, from, alone_greedy)[0], best[s]);
      const auto list = decoding::beam_search(model, from, alone_beam)[0];
      REQUIRE(list.size() == lists[s].size());
      CHECK(list.size() > 1);
      for (size_t k = 0; k < list.size(); ++k) {
        const Hypothesis& h = lists[s][k];
        check_same(list[k], h);
        CHECK(again[s][k].tokens == h.tokens);
        CHECK(h.log_prob == doctest::Approx(sentence.log_prob_of(h)).epsilon(1e-10));
        for (size_t j = 0; j < k; ++j) CHECK(lists[s][j].tokens != h.tokens);
        if (k > 0) CHECK(lists[s][k - 1].score >= h.score);
      }
      CHECK(drawn[s].log_prob == doctest::Approx(sentence.log_prob_of(drawn[s])).epsilon(1e-9));
      CHECK(drawn[s].tokens == drawn_again[s].tokens);
      differ = differ || best[s].tokens != best[0].tokens;
    }
    ++rows;
    rows_that_differ += differ;
  });
  // Few models find the same tokens for every sentence.
  CHECK(rows > 70);
  CHECK(rows_that_differ > rows * 3 / 4);
}

TEST_CASE("decode: a Transformer without decoder layers, which sees only the last token") {
  Rng rng(6);
  models::Transformer model({.source_vocab = 5,
                             .target_vocab = 9,
                             .encoder_layers = 1,
                             .decoder_layers = 0,
                             .layer = {.dim = 8, .heads = 2, .ffn = 6}},
                            rng);
  nn::set_training(model, false);
  NoGradGuard guard;
  const Tensor source = zeros({3, 2}, DType::i64);
  const models::TransformerState state = model.encode(source);
  CHECK(state.batch() == 3);
  CHECK(state.select_rows(tensor(Tokens{2, 0}, {2})).batch() == 2);
  const auto found = decoding::greedy(model, state, {.begin = Tokens{3, 4, 5}, .max_length = 4});
  for (size_t s = 0; s < 3; ++s) {
    REQUIRE(found[s].tokens.size() == 4);
    Tokens read{static_cast<int64_t>(s) + 3};
    read.insert(read.end(), found[s].tokens.begin(), found[s].tokens.end() - 1);
    const Tensor logits = model(narrow(source, 0, 0, 1), {}, tensor(read, {1, 4}));
    CHECK(argmax(logits[0], -1).to_vector<int64_t>() == found[s].tokens);
  }
}

TEST_CASE("decode: a recurrent state selects its sequences") {
  Rng rng(4);
  const Tensor rows = tensor(Tokens{2, 0, 0, 1}, {4});
  const nn::RnnState layers{randn({2, 3, 5}, rng), randn({2, 3, 5}, rng)};
  CHECK(layers.batch() == 3);
  const nn::RnnState picked = layers.select_rows(rows);
  CHECK(picked.batch() == 4);
  const int64_t from[] = {2, 0, 0, 1};
  for (int64_t i = 0; i < 4; ++i) {
    CHECK(all_close(select(picked.h, 1, i), select(layers.h, 1, from[i]), 0, 0));
    CHECK(all_close(select(picked.c, 1, i), select(layers.c, 1, from[i]), 0, 0));
  }
  const nn::RnnState cell{randn({3, 5}, rng), {}};
  CHECK(cell.batch() == 3);
  CHECK(all_close(cell.select_rows(rows).h[0], cell.h[2], 0, 0));
  CHECK(!cell.select_rows(rows).c.defined());
  CHECK_THROWS_WITH_AS(nn::RnnState().batch(), doctest::Contains("undefined"), Error);
}

}  // namespace tern::test::test_decode_models
