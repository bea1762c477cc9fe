// The LSTM encoder-decoder and Bahdanau's model with attention: steps, padding, alignments, names.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/models/bahdanau.h"
#include "tern/models/seq2seq.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_seq2seq {
using models::Bahdanau, models::BahdanauForm, models::BahdanauOptions, models::LstmSeq2Seq;
using test::check_leaves, test::close, test::repad;

namespace {

BahdanauOptions tiny(BahdanauForm form) {
  return {.source_vocab = 9,
          .target_vocab = 7,
          .embed = 5,
          .hidden = 6,
          .form = form,
          .layers = form == BahdanauForm::d2l ? 2 : 1};
}

constexpr models::Seq2SeqOptions kTiny = {
    .source_vocab = 9, .target_vocab = 7, .embed = 5, .hidden = 6};

struct Batch {
  Tensor source, lengths, target;
};

Batch make_batch(Rng& rng) {
  return {randint(0, 9, {3, 6}, rng), tensor({6, 2, 4}, {3}, DType::i64),
          randint(0, 7, {3, 4}, rng)};
}

}  // namespace

TEST_CASE("seq2seq: gradients reach every parameter; steps equal the whole") {
  for (bool reverse : {false, true}) {
    Rng rng(1);
    models::Seq2SeqOptions options = kTiny;
    options.reverse_source = reverse;
    LstmSeq2Seq model(options, rng);
    Batch b = make_batch(rng);
    Tensor logits = model(b.source, b.lengths, b.target);
    CHECK(logits.shape() == Shape{3, 4, 7});
    check_leaves(sum(logits), model);
    nn::RnnState state = model.encode(b.source, b.lengths);
    for (int64_t t = 0; t < 4; ++t) {
      LstmSeq2Seq::Step step = model.step(state, select(b.target, 1, t));
      CHECK(close(step.logits, select(logits, 1, t)));
      state = step.state;
    }
  }
}

TEST_CASE("seq2seq: padding changes nothing; a row alone equals that row of a batch") {
  Rng rng(2);
  models::Seq2SeqOptions options = kTiny;
  options.reverse_source = true;
  LstmSeq2Seq model(options, rng);
  Batch b = make_batch(rng);
  Tensor logits = model(b.source, b.lengths, b.target);
  CHECK(model(repad(b.source, b.lengths, 9), b.lengths, b.target).to_vector<float>() ==
        logits.to_vector<float>());
  Tensor alone = model(narrow(narrow(b.source, 0, 1, 1), 1, 0, 2), {}, narrow(b.target, 0, 1, 1));
  CHECK(close(alone, narrow(logits, 0, 1, 1)));
}

TEST_CASE("seq2seq: reversed tokens") {
  Tensor tokens = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, DType::i64);
  CHECK(models::reverse_tokens(tokens).to_vector<int>() == std::vector<int>{3, 2, 1, 6, 5, 4});
  Tensor some = models::reverse_tokens(tokens, tensor({2, 0}, {2}, DType::i64));
  CHECK(some.to_vector<int>() == std::vector<int>{2, 1, 3, 4, 5, 6});
}

TEST_CASE("bahdanau: names of both forms") {
  Rng rng(3);
  auto names = [&](BahdanauForm form) {
    std::vector<std::string> out;
    for (const auto& [name, t] : nn::named_parameters(Bahdanau(tiny(form), rng)))
      out.push_back(name);
    return out;
  };
  std::vector<std::string> d2l = names(BahdanauForm::d2l);
  auto has = [&](const char* name) { return std::count(d2l.begin(), d2l.end(), name) == 1; };
  CHECK(has("encoder.rnn.weight_ih_l1"));
  CHECK(has("decoder.rnn.weight_hh_l1"));
  CHECK(has("decoder.attention.W_q.weight"));
  CHECK_FALSE(has("encoder.fc.weight"));
  CHECK(names(BahdanauForm::paper).size() == 21);  // as in the reference file, see tests/parity
  BahdanauOptions deep = tiny(BahdanauForm::paper);
  deep.layers = 2;
  CHECK_THROWS_WITH_AS(Bahdanau(deep, rng), doctest::Contains("one layer, got 2"), Error);
}

TEST_CASE("bahdanau: gradients reach every parameter; steps equal the whole") {
  for (BahdanauForm form : {BahdanauForm::paper, BahdanauForm::d2l}) {
    Rng rng(4);
    Bahdanau model(tiny(form), rng);
    Batch b = make_batch(rng);
    auto out = model.align(b.source, b.lengths, b.target);
    CHECK(out.logits.shape() == Shape{3, 4, 7});
    CHECK(out.alignments.shape() == Shape{3, 4, 6});
    check_leaves(sum(out.logits), model);
    models::BahdanauState state = model.encode(b.source, b.lengths);
    for (int64_t t = 0; t < 4; ++t) {
      Bahdanau::Step step = model.step(state, select(b.target, 1, t));
      CHECK(close(step.logits, select(out.logits, 1, t)));
      CHECK(close(step.alignment, select(out.alignments, 1, t)));
      state = step.state;
    }
  }
}

TEST_CASE("bahdanau: alignments sum to 1 over the sentence; padding changes nothing") {
  for (BahdanauForm form : {BahdanauForm::paper, BahdanauForm::d2l}) {
    Rng rng(5);
    Bahdanau model(tiny(form), rng);
    Batch b = make_batch(rng);
    auto out = model.align(b.source, b.lengths, b.target);
    CHECK(all_close(sum(out.alignments, 2), ones({3, 4}), 1e-6, 1e-6));
    Tensor behind = le(reshape(b.lengths, {3, 1, 1}), arange(0, 6));
    CHECK(max(where(behind, out.alignments, 0)).item() == 0);
    Tensor other = model(repad(b.source, b.lengths, 9), b.lengths, b.target);
    CHECK(other.to_vector<float>() == out.logits.to_vector<float>());
    Tensor alone = model(narrow(narrow(b.source, 0, 2, 1), 1, 0, 4), {}, narrow(b.target, 0, 2, 1));
    CHECK(close(alone, narrow(out.logits, 0, 2, 1)));
    // Selects rows, as beam search does.
    models::BahdanauState state =
        model.encode(b.source, b.lengths).select_rows(tensor({2, 2, 0}, {3}, DType::i64));
    auto step = model.step(
        state, select(index_select(b.target, 0, tensor({2, 2, 0}, {3}, DType::i64)), 1, 0));
    CHECK(close(select(step.logits, 0, 1), select(select(out.logits, 0, 2), 0, 0)));
    CHECK(close(select(step.logits, 0, 2), select(select(out.logits, 0, 0), 0, 0)));
  }
}

TEST_CASE("bahdanau: the same bits on any number of threads") {
  test::check_threads([] {
    Rng rng(6);
    BahdanauOptions o = tiny(BahdanauForm::paper);
    o.embed = o.hidden = 48;
    Bahdanau model(o, rng);
    Tensor source = randint(0, 9, {20, 12}, rng), target = randint(0, 7, {20, 10}, rng);
    Tensor logits = model(source, {}, target);
    cross_entropy(flatten(logits, 0, 1), flatten(target)).backward();
    return test::with_gradients(logits, model);
  });
}

}  // namespace tern::test_seq2seq
