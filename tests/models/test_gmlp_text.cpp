// gMLP and aMLP for text: numbers of weights, names, words behind the padding, learning, errors.
#include <doctest/doctest.h>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gmlp_text.h"
#include "tern/optim/optim.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_gmlp_text {
using models::GmlpLanguageModel, models::GmlpMaskedLanguageModel, models::GmlpTextClassifier;
using models::GmlpTextOptions, models::TextPooling;
using test::same;

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

Tensor words(int64_t batch, int64_t tokens, Rng& rng) {
  return randint(0, kWords, {batch, tokens}, rng);
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

TEST_CASE("gmlp text: spatial matrices start near 0, whatever else the gate is given") {
  GmlpTextOptions o = tiny();
  const auto largest = [&](const nn::SpatialGatingOptions& gate) {
    Rng rng(1);
    o.gate = gate;
    return amax(abs(GmlpLanguageModel(o, rng).model.blocks[0].sgu.weight)).item();
  };
  CHECK(largest({}) <= 1e-6);
  CHECK(largest({.causal = true}) <= 1e-6);
  CHECK(largest({.matrix = nn::SpatialMatrix::toeplitz}) <= 1e-6);
  CHECK(largest({.weight_bound = 0.3}) > 0.05);
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
  CHECK_THROWS_WITH_AS(model.step(model.encode(words(3, 6, rng)), zeros({3}, DType::i64)),
                       doctest::Contains("a context of 6"), Error);
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
