// BERT: numbers of weights, segments, losses, attention, and filling of masks. Files:
// test_bert_files.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/core/base/rng.h"
#include "tern/models/bert.h"
#include "tern/optim/optim.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_bert {
namespace {

using models::Bert, models::BertInput, models::BertLoss, models::BertOptions;
using nn::Mask;
using test::bert_forms, test::close, test::same, test::tiny_bert;

constexpr int64_t kWords = 17;

/// Moves norms and biases away from 0 and 1, where errors would not show.
Bert make_model(const BertOptions& options, Rng& rng) {
  Bert model(options, rng);
  NoGradGuard no_grad;
  for (const Tensor& p : nn::parameters(model)) add_(p, randn(p.shape(), rng, p.dtype()), 0.3);
  return model;
}

struct Sample {
  Tensor tokens, segments, lengths;
  BertInput input() const { return {tokens, segments, Mask::lengths(lengths)}; }
};

Sample make_sample(Rng& rng) {
  return {randint(0, kWords, {3, 7}, rng), randint(0, 2, {3, 7}, rng),
          tensor<int64_t>({7, 2, 5}, {3})};
}

}  // namespace

TEST_CASE("bert: numbers of weights") {
  CHECK(models::bert_weights({}) == 110106428);
  // Numbers from transformers' BertForPreTraining and BertForSequenceClassification.
  CHECK(models::bert_weights(models::bert_options("large")) == 336226108);
  BertOptions tiny_classifier = models::bert_options("tiny");
  tiny_classifier.masked_lm = tiny_classifier.next_sentence = false;
  tiny_classifier.classes = 2;
  CHECK(models::bert_weights(tiny_classifier) == 4386178);
  CHECK(models::bert_names() ==
        std::vector<std::string>{"base", "large", "medium", "small", "mini", "tiny"});
  CHECK_THROWS_WITH_AS(models::bert_options("bas"), doctest::Contains("base, large"), Error);
}

TEST_CASE("bert: a mask by keys is the same as lengths") {
  for (const BertOptions& options : bert_forms()) {
    Rng rng(3);
    const Bert model = make_model(options, rng);
    Sample s = make_sample(rng);
    if (options.segments == 0) s.segments = {};
    const Tensor keys = lt(arange(0, 7), unsqueeze(s.lengths, 1));
    CHECK(close(model.bert(s.input()), model.bert({s.tokens, s.segments, Mask::keys(keys)})));
  }
}

TEST_CASE("bert: missing segments mean 0; order and segments matter") {
  Rng rng(4);
  const Bert model = make_model(tiny_bert(), rng);
  const Tensor tokens = randint(0, kWords, {2, 5}, rng);
  const Tensor zero = zeros({2, 5}, DType::i64), y = model({tokens}).next;
  CHECK(close(model({tokens, zero}).next, y));
  CHECK_FALSE(close(model({tokens, zero + 1}).next, y));
  CHECK_FALSE(close(model({roll(tokens, {1}, {1})}).next, y));
  CHECK(model({zeros({0, 4}, DType::i64)}).words.shape() == Shape{0, 4, kWords});
  CHECK(model({tensor<int64_t>({5}, {1, 1})}).words.shape() == Shape{1, 1, kWords});
}

TEST_CASE("bert: the loss at gathered places equals that of all logits; f32 and f64") {
  for (DType dtype : {DType::f32, DType::f64}) {
    Rng rng(5);
    Bert a = make_model(tiny_bert(), rng);
    nn::to(a, dtype);
    const Bert b = a;
    const Sample s = make_sample(rng);
    const Tensor places = tensor<int64_t>({1, 7, 8, 18}, {4}),
                 words = tensor<int64_t>({3, 0, 16, 3}, {4}),
                 next = tensor<int64_t>({1, 0, 1}, {3});
    const BertLoss loss = models::pretraining_loss(a, s.input(), {places, words, next});
    test::check_leaves(loss.total, a);
    const Bert::Output y = b(s.input());
    Tensor all = zeros({21}, DType::i64) - 100;
    all = scatter_add(all, 0, places, words + 100);
    const Tensor want = cross_entropy(flatten(y.words, 0, 1), all) + cross_entropy(y.next, next);
    CHECK(close(loss.total, want));
    CHECK(close(loss.masked + loss.next, want));
    loss.total.backward();
    want.backward();
    const NamedTensors pa = nn::named_parameters(a), pb = nn::named_parameters(b);
    for (size_t i = 0; i < pa.size(); ++i)
      CHECK_MESSAGE(close(pa[i].second.grad(), pb[i].second.grad(), 1e-4, 1e-5), pa[i].first);
  }
}

TEST_CASE("bert: losses without places, without next-sentence targets, without heads") {
  Rng rng(6);
  const Bert model = make_model(tiny_bert(), rng);
  const Sample s = make_sample(rng);
  const Tensor none = zeros({0}, DType::i64), next = tensor<int64_t>({1, 0, 1}, {3});
  const BertLoss empty = models::pretraining_loss(model, s.input(), {none, none, next});
  CHECK(empty.masked.item() == 0);
  CHECK(empty.total.item() == empty.next.item());
  empty.total.backward();
  for (const auto& p : nn::named_parameters(model))
    if (p.second.grad().defined())
      CHECK_MESSAGE(all(isfinite(p.second.grad())).item<int>() == 1, p.first);
  const BertLoss words = models::pretraining_loss(
      model, s.input(), {tensor<int64_t>({2}, {1}), tensor<int64_t>({9}, {1}), {}});
  CHECK_FALSE(words.next.defined());
  CHECK(words.total.item() == words.masked.item());

  const Bert masked_only = make_model(bert_forms()[1], rng),
             next_only = make_model(bert_forms()[2], rng);
  CHECK_THROWS_WITH_AS(models::pretraining_loss(masked_only, s.input(), {none, none, next}),
                       doctest::Contains("next_sentence"), Error);
  CHECK_THROWS_WITH_AS(models::pretraining_loss(next_only, s.input(), {none, none, next}),
                       doctest::Contains("masked_lm"), Error);
  CHECK_THROWS_AS(masked_only.bert.pooled(zeros({1, 2, 12})), Error);
}

TEST_CASE("bert: the padding word learns only as an output") {
  for (int64_t pad : {0, -1}) {
    Rng rng(7);
    BertOptions options = tiny_bert();
    options.pad = pad;
    options.masked_lm = false;
    const Bert model = make_model(options, rng);
    sum(model({zeros({1, 3}, DType::i64)}).next).backward();
    const Tensor grad = model.bert.embeddings.word_embeddings.weight.grad();
    CHECK((sum(abs(select(grad, 0, 0))).item() == 0) == (pad == 0));
  }
  Rng rng(7);
  const Bert fresh(tiny_bert(), rng);
  CHECK(sum(abs(select(fresh.bert.embeddings.word_embeddings.weight, 0, 0))).item() == 0);
  CHECK(sum(abs(select(fresh.bert.embeddings.word_embeddings.weight, 0, 1))).item() > 0);
}

TEST_CASE("bert: attention sees only real tokens; asking for weights changes nothing") {
  Rng rng(9);
  const Bert model = make_model(tiny_bert(), rng);
  const Sample s = make_sample(rng);
  const std::vector<Tensor> weights = model.attend(s.input());
  REQUIRE(weights.size() == 2);
  for (const Tensor& w : weights) {
    CHECK(w.shape() == Shape{3, 3, 7, 7});
    CHECK(close(sum(w, -1), ones({3, 3, 7})));
    CHECK(sum(narrow(select(w, 0, 1), -1, 2, 5)).item() == 0);
  }
  std::vector<Tensor> seen;
  CHECK(close(model.bert(s.input(), &seen), model.bert(s.input())));
  CHECK(seen.size() == 2);
}

TEST_CASE("bert: fills masks with learned words, and returns to training mode") {
  // Sentences n, n + 1, n + 2, n + 3 (words 5 to 14) between [CLS] and [SEP]. The mask is 4.
  constexpr int64_t kClass = 2, kSeparator = 3, kMask = 4;
  Rng rng(11);
  Bert model(tiny_bert(), rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.01});
  for (int step = 0; step < 150; ++step) {
    std::vector<int64_t> tokens, places, words;
    for (int64_t b = 0; b < 16; ++b) {
      const int64_t n = 5 + rng.below(7), hidden = rng.below(4);
      for (int64_t t : {kClass, n, n + 1, n + 2, n + 3, kSeparator}) tokens.push_back(t);
      places.push_back(6 * b + 1 + hidden);
      words.push_back(n + hidden);
      tokens[places.back()] = kMask;
    }
    models::pretraining_loss(model, {tensor(tokens, {16, 6})},
                             {tensor(places, {16}), tensor(words, {16}), {}})
        .total.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const std::vector<int64_t> sentence = {kClass, 8, kMask, 10, kMask, kSeparator};
  const auto filled = models::fill_mask(model, sentence, kMask, 3);
  REQUIRE(filled.size() == 2);
  CHECK(filled[0].position == 2);
  CHECK(filled[1].position == 4);
  REQUIRE(filled[0].guesses.size() == 3);
  CHECK(filled[0].guesses[0].token == 9);
  CHECK(filled[1].guesses[0].token == 11);
  CHECK(filled[0].guesses[0].probability > 0.5);
  CHECK(filled[0].guesses[1].probability <= filled[0].guesses[0].probability);
  CHECK(model.dropout.training);
  double total = 0;
  const auto every = models::fill_mask(model, sentence, kMask, 1000);
  CHECK(every[0].guesses.size() == kWords);
  for (const auto& guess : every[0].guesses) total += guess.probability;
  CHECK(total == doctest::Approx(1).epsilon(1e-5));
  CHECK(models::fill_mask(model, std::vector<int64_t>{kClass, 8}, kMask).empty());
  CHECK_THROWS_AS(models::fill_mask(model, sentence, kMask, 0), Error);
}

TEST_CASE("bert: invalid options and inputs are errors") {
  Rng rng(12);
  auto broken = [](auto change) {
    BertOptions options = tiny_bert();
    change(options);
    return options;
  };
  for (const BertOptions& options :
       {broken([](auto& o) { o.heads = 5; }), broken([](auto& o) { o.heads = 0; }),
        broken([](auto& o) { o.vocab = 0; }), broken([](auto& o) { o.layers = -1; }),
        broken([](auto& o) { o.classes = -1; }), broken([](auto& o) { o.pad = kWords; })})
    CHECK_THROWS_AS(Bert(options, rng), Error);
  const Bert model(tiny_bert(), rng);
  const Tensor tokens = zeros({2, 3}, DType::i64);
  CHECK_THROWS_WITH_AS(model({zeros({2, 10}, DType::i64)}), doctest::Contains("1 to 9"), Error);
  CHECK_THROWS_AS(model({zeros({2, 0}, DType::i64)}), Error);
  CHECK_THROWS_AS(model({zeros({2, 3})}), Error);
  CHECK_THROWS_AS(model(BertInput{Tensor()}), Error);
  CHECK_THROWS_AS(model({tokens, zeros({2, 4}, DType::i64)}), Error);
  CHECK_THROWS_AS(model({tokens + kWords}), Error);
  CHECK_THROWS_AS(model({tokens, tokens + 2}), Error);
}

}  // namespace tern::test_bert
