// The LSTM encoder-decoder and Bahdanau's model with attention: reversed tokens, names, alignments.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/models/bahdanau.h"
#include "tern/models/seq2seq.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_seq2seq {
using models::Bahdanau, models::BahdanauForm, models::BahdanauOptions, models::LstmSeq2Seq;
using test::close;

namespace {

BahdanauOptions tiny(BahdanauForm form) {
  return {.source_vocab = 9,
          .target_vocab = 7,
          .embed = 5,
          .hidden = 6,
          .form = form,
          .layers = form == BahdanauForm::d2l ? 2 : 1};
}

}  // namespace

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

TEST_CASE("seq2seq: vocabularies that were not set are an error that names them") {
  Rng rng(1);
  CHECK_THROWS_WITH_AS(Bahdanau({.source_vocab = 9}, rng),
                       "Bahdanau: vocabularies must be positive, got 9 and 0 words; set "
                       "source_vocab and target_vocab",
                       Error);
  CHECK_THROWS_WITH_AS(LstmSeq2Seq({.target_vocab = 9}, rng),
                       doctest::Contains("LstmSeq2Seq: vocabularies must be positive, got 0 and 9"),
                       Error);
}

TEST_CASE("seq2seq: one layer has no dropout between layers; probabilities are in [0, 1)") {
  Rng rng(4);
  const auto lstm = [&](int64_t layers, double dropout) {
    return LstmSeq2Seq({.source_vocab = 9,
                        .target_vocab = 7,
                        .embed = 5,
                        .hidden = 6,
                        .layers = layers,
                        .dropout = dropout},
                       rng);
  };
  CHECK_FALSE(lstm(1, 0.5).encoder.dropout.has_value());
  CHECK(lstm(1, 0.5).dropout->p == 0.5);
  CHECK(lstm(2, 0.5).decoder.dropout->p == 0.5);
  BahdanauOptions o = tiny(BahdanauForm::paper);
  o.layer_dropout = 0.5;
  CHECK_FALSE(Bahdanau(o, rng).encoder.rnn.dropout.has_value());
  const std::string said = "p must be in [0, 1)";
  for (const double p : {-0.5, 1.0}) {
    for (const int64_t layers : {1, 2})
      CHECK_THROWS_WITH_AS(lstm(layers, p), doctest::Contains(said.c_str()), Error);
    for (const auto member : {&BahdanauOptions::dropout, &BahdanauOptions::layer_dropout,
                              &BahdanauOptions::attention_dropout}) {
      BahdanauOptions broken = tiny(BahdanauForm::d2l);
      broken.*member = p;
      CHECK_THROWS_WITH_AS(Bahdanau(broken, rng), doctest::Contains(said.c_str()), Error);
    }
  }
}

TEST_CASE("bahdanau: alignments sum to 1 over the sentence, in the whole and in steps") {
  for (BahdanauForm form : {BahdanauForm::paper, BahdanauForm::d2l}) {
    Rng rng(5);
    const Bahdanau model(tiny(form), rng);
    const Tensor source = randint(0, 9, {3, 6}, rng), target = randint(0, 7, {3, 4}, rng);
    const Tensor lengths = tensor<int64_t>({6, 2, 4}, {3});
    const auto out = model.align(source, lengths, target);
    CHECK(close(out.logits, model(source, lengths, target)));
    CHECK(close(sum(out.alignments, 2), ones({3, 4}), 1e-6, 1e-6));
    CHECK(max(where(le(reshape(lengths, {3, 1, 1}), arange(0, 6)), out.alignments, 0)).item() == 0);
    models::BahdanauState state = model.encode(source, lengths);
    for (int64_t t = 0; t < 4; ++t) {
      Bahdanau::Step step = model.step(state, select(target, 1, t));
      CHECK(close(step.alignment, select(out.alignments, 1, t)));
      state = step.state;
    }
  }
}

}  // namespace tern::test_seq2seq
