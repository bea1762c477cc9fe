// gMLP and aMLP for text: heads, causality, padding and decoding, in every pair of options.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/beam_search.h"
#include "tern/decode/sampling.h"
#include "tern/models/gmlp_text.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/option_pairs.h"

namespace tern::test_gmlp_text {
using models::GmlpLanguageModel, models::GmlpMaskedLanguageModel, models::GmlpTextClassifier;
using models::GmlpTextOptions, models::TextPooling;
using nn::Gate, nn::SpatialMatrix;
using test::check_leaves, test::close, test::repad, test::same;

namespace {

constexpr int64_t kWords = 7, kContext = 6;

GmlpTextOptions tiny() {
  return {.vocab = kWords,
          .context = kContext,
          .dim = 8,
          .layers = 2,
          .d_ffn = 16,
          .gate = {.weight_bound = 0.3}};
}

const test::Choices<GmlpTextOptions>& choices() {
  static const test::Choices<GmlpTextOptions> kChoices = {
      {{"additive", [](auto& o) { o.gate.gate = Gate::additive; }},
       {"linear", [](auto& o) { o.gate.gate = Gate::linear, o.gate.split = false; }}},
      {{"unsplit", [](auto& o) { o.gate.split = false; }}},
      {{"heads", [](auto& o) { o.gate.heads = 4; }}},
      {{"toeplitz", [](auto& o) { o.gate.matrix = SpatialMatrix::toeplitz; }},
       {"circulant", [](auto& o) { o.gate.matrix = SpatialMatrix::circulant; }}},
      {{"causal", [](auto& o) { o.gate.causal = true; }}},
      {{"attention", [](auto& o) { o.attention_dim = 4; }}},
      {{"positions", [](auto& o) { o.positions = true; }}},
      {{"own head", [](auto& o) { o.tie_head = false; }}},
      {{"dropout", [](auto& o) { o.dropout = 0.1, o.drop_path = 0.2; }}},
      {{"default d_ffn", [](auto& o) { o.d_ffn = 0; }}},
      {{"one layer", [](auto& o) { o.layers = 1; }}},
  };
  return kChoices;
}

void for_pairs(const std::function<void(const std::string&, const GmlpTextOptions&)>& fn) {
  test::for_pairs(tiny(), choices(), fn);
}

/// The model in f64 and evaluation, with weights so large that every part matters.
template <class M>
M asked(M model, Rng& rng) {
  for (const auto& [name, p] : nn::named_parameters(model))
    if (p.ndim() == 1) nn::init::uniform(p, 0.5, 1.5, rng);
  nn::init::normal(model.model.embed.weight, 0, 1, rng);
  nn::to(model, DType::f64);
  nn::set_training(model, false);
  return model;
}

Tensor words(int64_t batch, int64_t tokens, Rng& rng) {
  return randint(0, kWords, {batch, tokens}, rng);
}

/// Compares the derivative of loss() along random directions with differences.
template <class M>
void check_gradients(const M& model, const std::function<Tensor(const M&)>& loss, Rng& rng) {
  nn::zero_grad(model);
  loss(model).backward();
  NamedTensors parameters = nn::named_parameters(model);
  NoGradGuard guard;
  for (const auto& entry : parameters) {
    const Tensor& p = entry.second;
    const Tensor direction = randn(p.shape(), rng, DType::f64);
    const double slope = sum(p.grad() * direction).item(), step = 1e-6;
    auto moved = [&](double by) {
      const Tensor before = p.clone();
      copy_(p, before + direction * by);
      const double value = loss(model).item();
      copy_(p, before);
      return value;
    };
    const double difference = (moved(step) - moved(-step)) / (2 * step);
    CHECK_MESSAGE(difference == doctest::Approx(slope).epsilon(1e-5).scale(1e-3), entry.first);
  }
}

}  // namespace

TEST_CASE("gmlp text: the paper's numbers of weights") {
  // Tables 5 and 6, in millions, with a vocabulary of 32,000.
  const std::vector<std::pair<std::string, int64_t>> millions = {
      {"base", 130}, {"large", 365}, {"xlarge", 941}, {"amlp-base", 109}, {"amlp-large", 316}};
  for (const auto& entry : millions) {
    GmlpTextOptions o = models::gmlp_text_options(entry.first);
    o.vocab = 32000;
    const int64_t all = models::gmlp_text_weights(o);
    CHECK_MESSAGE((all + 500000) / 1000000 == entry.second, entry.first);
  }
  CHECK(models::gmlp_text_names().size() == 6);
  CHECK(models::gmlp_text_options("small").context == 128);
  CHECK_THROWS_WITH_AS(models::gmlp_text_options("huge"), doctest::Contains("amlp-base"), Error);
}

TEST_CASE("gmlp text: names") {
  GmlpTextOptions o = tiny();
  o.layers = 1;
  o.attention_dim = 4;
  o.positions = true;
  o.tie_head = false;
  Rng rng(1);
  auto names = [](const auto& model) {
    std::vector<std::string> out;
    for (const auto& [name, t] : nn::state_dict(model)) out.push_back(name);
    return out;
  };
  std::vector<std::string> body = {"model.embed.weight", "model.positions.weight"};
  for (const char* n :
       {"norm.weight", "norm.bias", "mlp_channels.fc1.weight", "mlp_channels.fc1.bias",
        "mlp_channels.gate.norm.weight", "mlp_channels.gate.norm.bias",
        "mlp_channels.gate.proj.weight", "mlp_channels.gate.proj.bias", "attn.to_qkv.weight",
        "attn.to_qkv.bias", "attn.to_out.weight", "attn.to_out.bias", "mlp_channels.fc2.weight",
        "mlp_channels.fc2.bias"})
    body.push_back(std::string("model.blocks.0.") + n);
  body.insert(body.end(), {"model.norm.weight", "model.norm.bias"});
  auto with = [&](std::vector<std::string> heads) {
    heads.insert(heads.begin(), body.begin(), body.end());
    return heads;
  };
  CHECK(names(GmlpLanguageModel(o, rng)) == with({"head.weight"}));
  CHECK(names(GmlpMaskedLanguageModel(o, rng)) ==
        with({"transform.weight", "transform.bias", "transform_norm.weight", "transform_norm.bias",
              "decoder.weight", "decoder.bias"}));
  CHECK(names(GmlpTextClassifier(o, {}, rng)) == with({"head.weight", "head.bias"}));
  o.tie_head = true;
  CHECK(names(GmlpLanguageModel(o, rng)) == with({}));
  CHECK(names(GmlpMaskedLanguageModel(o, rng)).back() == "decoder.bias");
}

TEST_CASE("gmlp text: every loss depends on all parameters and nothing else") {
  const Tensor lengths = tensor<int64_t>({5, 2, 3}, {3});
  for_pairs([&](const std::string& name, const GmlpTextOptions& o) {
    CAPTURE(name);
    Rng rng(2);
    const Tensor tokens = words(3, 5, rng), next = flatten(words(3, 5, rng));
    auto check_loss = [&](const Tensor& loss, const auto& model) {
      check_leaves(loss, model);
      loss.backward();
      optim::AdamW optimizer(nn::named_parameters(model));
      optimizer.step();
    };
    const GmlpLanguageModel language(o, rng);
    const Tensor logits = language(tokens);
    REQUIRE(logits.shape() == Shape{3, 5, kWords});
    CHECK(models::gmlp_text_weights(o) == nn::num_parameters(language));
    check_loss(cross_entropy(flatten(logits, 0, 1), next), language);
    const GmlpMaskedLanguageModel masked(o, rng);
    check_loss(cross_entropy(flatten(masked(tokens, lengths), 0, 1), next), masked);
    for (auto pooling : {TextPooling::first, TextPooling::last, TextPooling::mean}) {
      if (pooling == TextPooling::first && o.gate.causal) continue;
      const GmlpTextClassifier classifier(o, {.classes = 4, .pooling = pooling}, rng);
      const Tensor classes = classifier(tokens, lengths);
      REQUIRE(classes.shape() == Shape{3, 4});
      check_loss(cross_entropy(classes, tensor<int64_t>({1, 0, 3}, {3})), classifier);
    }
  });
}

TEST_CASE("gmlp text: gradients match differences") {
  const Tensor lengths = tensor<int64_t>({5, 2, 3}, {3});
  for (auto matrix : {SpatialMatrix::full, SpatialMatrix::toeplitz}) {
    for (bool tied : {true, false}) {
      GmlpTextOptions o = tiny();
      o.gate.matrix = matrix;
      o.gate.heads = 2;
      o.attention_dim = 4;
      o.positions = o.tie_head = tied;
      Rng rng(3);
      const Tensor tokens = words(3, 5, rng), next = flatten(words(3, 5, rng));
      check_gradients<GmlpLanguageModel>(
          asked(GmlpLanguageModel(o, rng), rng),
          [&](const auto& m) { return cross_entropy(flatten(m(tokens), 0, 1), next); }, rng);
      check_gradients<GmlpMaskedLanguageModel>(
          asked(GmlpMaskedLanguageModel(o, rng), rng),
          [&](const auto& m) { return cross_entropy(flatten(m(tokens, lengths), 0, 1), next); },
          rng);
      for (auto pooling : {TextPooling::first, TextPooling::last, TextPooling::mean})
        check_gradients<GmlpTextClassifier>(
            asked(GmlpTextClassifier(o, {.classes = 4, .pooling = pooling}, rng), rng),
            [&](const auto& m) {
              return cross_entropy(m(tokens, lengths), tensor<int64_t>({1, 0, 3}, {3}));
            },
            rng);
    }
  }
}

TEST_CASE("gmlp text: no logit of a language model depends on a later token, bit for bit") {
  for_pairs([&](const std::string& name, const GmlpTextOptions& o) {
    CAPTURE(name);
    Rng rng(4);
    const GmlpLanguageModel model = asked(GmlpLanguageModel(o, rng), rng);
    NoGradGuard guard;
    const Tensor tokens = words(2, kContext, rng), whole = model(tokens);
    for (int64_t seen = 1; seen < kContext; ++seen) {
      const Tensor lengths = full({2}, seen, DType::i64);
      const Tensor other = model(repad(tokens, lengths, kWords));
      CHECK(same(narrow(whole, 1, 0, seen), narrow(other, 1, 0, seen)));
      CHECK_FALSE(same(select(whole, 1, seen), select(other, 1, seen)));
      // A shorter text has the logits of the beginning of a longer one.
      CHECK(close(model(narrow(tokens, 1, 0, seen)), narrow(whole, 1, 0, seen), 1e-10, 1e-12));
    }
  });
}

TEST_CASE("gmlp text: padding changes no bit; a row alone equals that row of a batch") {
  const std::vector<int64_t> each = {5, 2, 3};
  const Tensor lengths = tensor(each, {3});
  for_pairs([&](const std::string& name, const GmlpTextOptions& o) {
    CAPTURE(name);
    Rng rng(5);
    const GmlpMaskedLanguageModel masked = asked(GmlpMaskedLanguageModel(o, rng), rng);
    NoGradGuard guard;
    const Tensor tokens = words(3, 5, rng), other = repad(tokens, lengths, kWords);
    const Tensor a = masked(tokens, lengths), b = masked(other, lengths);
    for (int64_t i = 0; i < 3; ++i) {
      const Tensor row = narrow(narrow(a, 0, i, 1), 1, 0, each[i]);
      CHECK(same(row, narrow(narrow(b, 0, i, 1), 1, 0, each[i])));
      const Tensor alone = narrow(narrow(tokens, 0, i, 1), 1, 0, each[i]);
      CHECK(close(masked(alone), row, 1e-10, 1e-12));
    }
    for (auto pooling : {TextPooling::first, TextPooling::last, TextPooling::mean}) {
      if (pooling == TextPooling::first && o.gate.causal) continue;
      const GmlpTextClassifier classifier =
          asked(GmlpTextClassifier(o, {.classes = 4, .pooling = pooling}, rng), rng);
      const Tensor classes = classifier(tokens, lengths);
      CHECK(same(classes, classifier(other, lengths)));
      CHECK_FALSE(same(classes, classifier(tokens)));
      const Tensor alone = classifier(narrow(narrow(tokens, 0, 1, 1), 1, 0, 2));
      CHECK(close(alone, narrow(classes, 0, 1, 1), 1e-10, 1e-12));
    }
  });
}

TEST_CASE("gmlp text: words that occur only in padding get no gradient") {
  GmlpTextOptions o = tiny();
  o.attention_dim = 4;
  Rng rng(6);
  const GmlpTextClassifier model(o, {}, rng);
  const Tensor tokens = tensor<int64_t>({1, 2, 6, 6, 3, 6, 6, 6}, {2, 4});
  sum(square(model(tokens, tensor<int64_t>({2, 1}, {2})))).backward();
  const Tensor grad = model.model.embed.weight.grad();
  CHECK(sum(abs(grad[6])).item() == 0);
  for (int64_t word : {1, 2, 3}) CHECK(sum(abs(grad[word])).item() > 0);
}

TEST_CASE("gmlp text: decoding with a cache equals the whole model, for any prompt") {
  for_pairs([&](const std::string& name, const GmlpTextOptions& o) {
    CAPTURE(name);
    Rng rng(7);
    const GmlpLanguageModel model = asked(GmlpLanguageModel(o, rng), rng);
    NoGradGuard guard;
    const Tensor tokens = words(3, kContext, rng), whole = model(tokens);
    for (int64_t prompt : {0, 1, 4}) {
      models::GmlpTextState state = model.encode(narrow(tokens, 1, 0, prompt));
      CHECK(state.batch() == 3);
      for (int64_t t = prompt; t < kContext; ++t) {
        GmlpLanguageModel::Step next = model.step(state, select(tokens, 1, t));
        CHECK(close(next.logits, select(whole, 1, t), 1e-10, 1e-12));
        state = next.state;
      }
      CHECK_THROWS_WITH_AS(model.step(state, select(tokens, 1, 0)),
                           doctest::Contains("a context of 6"), Error);
    }
    const Tensor rows = tensor<int64_t>({2, 0, 2, 1}, {4});
    const auto state = model.encode(narrow(tokens, 1, 0, 3)).select_rows(rows);
    CHECK(close(model.step(state, select(index_select(tokens, 0, rows), 1, 3)).logits,
                index_select(select(whole, 1, 3), 0, rows), 1e-10, 1e-12));
    CHECK(model.encode(narrow(tokens, 1, 0, 0)).select_rows(rows).batch() == 4);
  });
}

TEST_CASE("gmlp text: greedy, beam search and sampling match the whole model") {
  for (int64_t attention : {0, 4}) {
    GmlpTextOptions o = tiny();
    o.attention_dim = attention;
    Rng rng(8);
    const GmlpLanguageModel model = asked(GmlpLanguageModel(o, rng), rng);
    NoGradGuard guard;
    const Tensor prompts = words(4, 2, rng);
    const std::vector<int64_t> begin = select(prompts, 1, 1).to_vector<int64_t>();
    const auto state = model.encode(narrow(prompts, 1, 0, 1));
    const int64_t room = kContext - 1;
    auto log_prob = [&](int64_t text, const decoding::Hypothesis& h) {
      std::vector<int64_t> read = narrow(prompts, 0, text, 1).to_vector<int64_t>();
      read.insert(read.end(), h.tokens.begin(), h.tokens.end());
      const auto n = static_cast<int64_t>(read.size());
      const Tensor p =
          log_softmax(model(tensor(std::vector(read.begin(), read.end() - 1), {1, n - 1})), -1)[0];
      double total = 0;
      for (int64_t t = 2; t < n; ++t) total += p[t - 1][read[static_cast<size_t>(t)]].item();
      return total;
    };
    const auto best = decoding::greedy(model, state, {.begin = begin, .max_length = room});
    const auto lists = decoding::beam_search(
        model, state, {.beam = 3, .n_best = 3, .begin = begin, .max_length = room});
    Rng draws(9);
    const auto drawn = decoding::sample(model, state, {.begin = begin, .max_length = room}, draws);
    for (int64_t text = 0; text < 4; ++text) {
      const decoding::Hypothesis& greedy = best[static_cast<size_t>(text)];
      Tensor read = narrow(prompts, 0, text, 1);
      for (int64_t token : greedy.tokens) {
        CHECK(argmax(select(model(read), 1, read.size(1) - 1), -1).item<int64_t>() == token);
        if (read.size(1) < kContext) read = cat({read, tensor<int64_t>({token}, {1, 1})}, 1);
      }
      CHECK(std::ssize(greedy.tokens) == room);
      for (const decoding::Hypothesis& h :
           {greedy, lists[static_cast<size_t>(text)][2], drawn[static_cast<size_t>(text)]})
        CHECK(h.log_prob == doctest::Approx(log_prob(text, h)).epsilon(1e-9));
    }
  }
}

TEST_CASE("gmlp text: the same bits on any number of threads") {
  GmlpTextOptions o = tiny();
  o.attention_dim = 4;
  test::check_threads([&] {
    Rng rng(10);
    const GmlpMaskedLanguageModel model(o, rng);
    const Tensor y = model(words(3, 5, rng), tensor<int64_t>({5, 2, 0}, {3}));
    mean(square(y)).backward();
    return test::with_gradients(y, model);
  });
}

TEST_CASE("gmlp text: learns words that only earlier tokens tell") {
  // The next word is the one three places back. Only W can fetch it.
  GmlpTextOptions o = tiny();
  o.context = 12;
  o.dim = 16;
  o.d_ffn = 64;
  o.gate.weight_bound = 1e-6;
  Rng rng(11);
  GmlpLanguageModel model(o, rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.01});
  double last = 0;
  for (int step = 0; step < 150; ++step) {
    const Tensor period = words(32, 3, rng), text = repeat(period, {1, 5});
    const Tensor logits = narrow(model(narrow(text, 1, 0, 12)), 1, 2, 10);
    const Tensor loss = cross_entropy(flatten(logits, 0, 1), flatten(narrow(text, 1, 3, 10)));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item();
  }
  CHECK(last < 0.1);  // guessing would give ln 7 = 1.9
}

TEST_CASE("gmlp text: summary and heatmaps; invalid inputs are errors") {
  Rng rng(12);
  GmlpTextOptions o = tiny();
  o.gate.heads = 2;
  const GmlpLanguageModel model(o, rng);
  CHECK(model.summary() == "2 causal blocks on up to 6 tokens of 8 channels");
  const models::Heatmaps maps = model.heatmaps(words(1, 3, rng));
  REQUIRE(maps.maps.size() == 2);
  CHECK(maps.maps[0].values.shape() == Shape{2, kContext, kContext});
  CHECK(sum(abs(triu(maps.maps[0].values, 1))).item() == 0);
  CHECK(GmlpMaskedLanguageModel(o, rng).summary() == "2 blocks on up to 6 tokens of 8 channels");

  CHECK_THROWS_WITH_AS(model(words(1, 7, rng)), doctest::Contains("a context of 6"), Error);
  CHECK_THROWS_AS(model(words(1, 0, rng)), Error);
  CHECK_THROWS_AS(model(zeros({1, 3})), Error);
  CHECK_THROWS_AS(model(full({1, 3}, kWords, DType::i64)), Error);
  CHECK_THROWS_AS(model.step(model.encode(words(2, 1, rng)), select(words(3, 1, rng), 1, 0)),
                  Error);
  const GmlpMaskedLanguageModel masked(o, rng);
  for (const Tensor& lengths : {tensor<int64_t>({4}, {1}), tensor<int64_t>({-1}, {1}),
                                tensor<int64_t>({1, 1}, {2}), tensor({1}, {1}, DType::f32)})
    CHECK_THROWS_AS(masked(words(1, 3, rng), lengths), Error);
  const Tensor none = tensor<int64_t>({0}, {1});
  CHECK_THROWS_AS(
      GmlpTextClassifier(o, {.pooling = TextPooling::last}, rng)(words(1, 3, rng), none), Error);
  const GmlpTextClassifier mean_of(o, {.dropout = 0}, rng);
  CHECK(same(mean_of(words(1, 3, rng), none)[0], mean_of.head.bias));
  GmlpTextOptions causal = o;
  causal.gate.causal = true;
  CHECK_THROWS_WITH_AS(GmlpTextClassifier(causal, {.pooling = TextPooling::first}, rng),
                       doctest::Contains("the first token sees no other"), Error);
  CHECK_THROWS_WITH_AS(GmlpLanguageModel({}, rng), doctest::Contains("vocab 0"), Error);
}

}  // namespace tern::test_gmlp_text
