// Decoding the models of models/: with a cache as without, a batch as its sentences one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/beam_search.h"
#include "tern/decode/sampling.h"
#include "tern/models/bahdanau.h"
#include "tern/models/seq2seq.h"
#include "tern/models/transformer.h"
#include "tern/tests/support/threads.h"

namespace tern::test_decode_models {
using decoding::Hypothesis;
using Tokens = std::vector<int64_t>;

namespace {

constexpr int64_t kBegin = 1, kEnd = 2, kWords = 9, kSteps = 7;
const Tokens kForbid{0, kBegin};

template <class M>
Tensor full(const M& m, const Tensor& source, const Tensor& target) {
  return m(source, {}, target);
}

/// log p (T, V) after `begin` and each of the tokens, by the whole model without a cache.
template <class M>
Tensor log_probs(const M& model, const Tensor& source, Tokens tokens) {
  tokens.insert(tokens.begin(), kBegin);
  const Tensor target = tensor(tokens, {1, static_cast<int64_t>(tokens.size())});
  return log_softmax(full(model, source, target), -1)[0];
}

template <class M>
Hypothesis naive_greedy(const M& model, const Tensor& source) {
  Hypothesis h;
  while (!h.finished && std::ssize(h.tokens) < kSteps) {
    const Tensor next = log_probs(model, source, h.tokens)[std::ssize(h.tokens)];
    const std::vector<double> p = next.to_vector<double>();
    int64_t best = kEnd;
    for (int64_t t = kEnd; t < kWords; ++t)
      if (p[t] > p[best]) best = t;
    h.log_prob += p[best];
    h.finished = best == kEnd;
    if (!h.finished) h.tokens.push_back(best);
  }
  return h;
}

template <class M>
double log_prob_of(const M& model, const Tensor& source, const Hypothesis& h) {
  const Tensor p = log_probs(model, source, h.tokens);
  double sum = 0;
  for (int64_t i = 0; i < std::ssize(h.tokens); ++i) sum += p[i][h.tokens[i]].item();
  return h.finished ? sum + p[std::ssize(h.tokens)][kEnd].item() : sum;
}

void check_same(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].tokens == b[i].tokens);
    CHECK(a[i].finished == b[i].finished);
    CHECK(a[i].score == doctest::Approx(b[i].score).epsilon(1e-10));
  }
}

/// Larger weights, so that the output depends on the sentence.
template <class M>
void sharpen(M& model, double by) {
  nn::to(model, DType::f64);
  nn::set_training(model, false);
  NoGradGuard guard;
  for (const Tensor& p : nn::parameters(model))
    for (int64_t i = 0; i < p.numel(); ++i) p.mutable_data<double>()[i] *= by;
}

template <class M>
void check_model(const M& model) {
  NoGradGuard guard;
  Rng rng(5);
  const int64_t sentences = 6;
  const Tokens lengths{6, 2, 4, 1, 5, 3};
  const Tensor source = randint(3, kWords, {sentences, 6}, rng);
  const auto state = model.encode(source, tensor(lengths, {sentences}));
  const decoding::GreedyOptions greedy{
      .begin = kBegin, .end = kEnd, .max_length = kSteps, .forbid = kForbid};
  decoding::BeamOptions beam{.beam = 1,
                             .alpha = 0.6,
                             .begin = kBegin,
                             .end = kEnd,
                             .max_length = kSteps,
                             .forbid = kForbid};
  const auto best = decoding::greedy(model, state, greedy);
  const auto one = decoding::beam_search(model, state, beam);
  beam.beam = beam.n_best = 4;
  const auto lists = decoding::beam_search(model, state, beam);
  const auto again = [&] {
    const test::Threads other(num_threads() == 1 ? 2 : 1);
    return decoding::beam_search(model, state, beam);
  }();
  bool differ = false;
  for (int64_t s = 0; s < sentences; ++s) {
    const Tensor alone = narrow(narrow(source, 0, s, 1), 1, 0, lengths[s]);
    const Hypothesis naive = naive_greedy(model, alone);
    CHECK(best[s].tokens == naive.tokens);
    CHECK(best[s].finished == naive.finished);
    CHECK(best[s].log_prob == doctest::Approx(naive.log_prob).epsilon(1e-10));
    CHECK(one[s][0].tokens == best[s].tokens);
    CHECK(one[s][0].log_prob == best[s].log_prob);
    check_same(decoding::greedy(model, model.encode(alone), greedy), {best[s]});
    check_same(decoding::beam_search(model, model.encode(alone), beam).front(), lists[s]);
    REQUIRE(lists[s].size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      const Hypothesis& h = lists[s][i];
      CHECK(again[s][i].tokens == h.tokens);
      CHECK(h.log_prob == doctest::Approx(log_prob_of(model, alone, h)).epsilon(1e-10));
      for (size_t j = 0; j < i; ++j) CHECK(lists[s][j].tokens != h.tokens);
      if (i > 0) CHECK(lists[s][i - 1].score >= h.score);
    }
    differ = differ || best[s].tokens != best[0].tokens;
  }
  CHECK(differ);
}

}  // namespace

TEST_CASE("decode: Transformer, with and without cache, batched and alone") {
  for (bool norm_first : {false, true}) {
    Rng rng(1);
    models::Transformer model(
        {.source_vocab = kWords,
         .target_vocab = kWords,
         .encoder_layers = 2,
         .decoder_layers = 2,
         .layer = {.dim = 8, .heads = 2, .ffn = 12, .norm_first = norm_first}},
        rng);
    sharpen(model, 2);
    check_model(model);
  }
}

TEST_CASE("decode: Bahdanau's model in both forms") {
  for (auto form : {models::BahdanauForm::paper, models::BahdanauForm::d2l}) {
    Rng rng(2);
    models::Bahdanau model({.source_vocab = kWords,
                            .target_vocab = kWords,
                            .embed = 6,
                            .hidden = 8,
                            .form = form,
                            .layers = form == models::BahdanauForm::d2l ? 2 : 1},
                           rng);
    sharpen(model, 3);
    check_model(model);
  }
}

TEST_CASE("decode: two LSTMs") {
  for (bool reverse : {false, true}) {
    Rng rng(3);
    models::LstmSeq2Seq model({.source_vocab = kWords,
                               .target_vocab = kWords,
                               .embed = 6,
                               .hidden = 8,
                               .reverse_source = reverse},
                              rng);
    sharpen(model, 8);
    check_model(model);
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

}  // namespace tern::test_decode_models
