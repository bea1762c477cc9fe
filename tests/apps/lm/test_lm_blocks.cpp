// A bert's batch divided into blocks: the blocks together give the loss and gradient of the batch.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "tern/apps/lm/training.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_lm_blocks {
namespace {

// Sentences of several lengths, so that the blocks' shares of tokens, of words to predict and of
// pairs differ.
std::string text_of_many_lengths() {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "a cat sat on the mat and saw";
    for (int k = 0; k < i % 7; ++k) text += " a dog in the wood";
    text += "\nit ran\nthe bird flew over the roof of the house\n\n";
  }
  return text;
}

// In f64, so that rounding does not hide an error.
struct Setup {
  test::TempDir dir;
  TrainConfig config;
  BertCorpus corpus;
  std::optional<models::Bert> model;

  explicit Setup(bool pairs) {
    config.text = {test::write_file(dir / "text", text_of_many_lengths())};
    config.vocab_size = 257;
    config.hold_out = 0;
    config.model = {.model = kBert, .context = 48, .layers = 1, .dim = 8, .heads = 2};
    config.pairs = pairs;
    config.batch = 21;
    BertKind::encode(config, "", ".", corpus);
    config.model.dropout = 0;
    model.emplace(BertKind::draw(config, corpus));
    nn::to(*model, DType::f64);
  }
  Tensor loss(const datasets::BertBatch& b) { return BertKind::loss(*model, b, corpus, nullptr); }
  std::vector<double> gradients() {
    std::vector<double> all;
    for (const auto& [name, p] : nn::named_parameters(*model)) {
      if (!p.grad().defined()) continue;
      const auto g = p.grad().to_vector<double>();
      all.insert(all.end(), g.begin(), g.end());
      p.zero_grad();
    }
    return all;
  }
};

}  // namespace

TEST_CASE("lm blocks: the blocks of a bert's batch give its loss and gradient, with pairs or not") {
  for (const bool pairs : {true, false}) {
    CAPTURE(pairs);
    Setup s(pairs);
    auto loader = training_batches(s.config, s.corpus);
    const datasets::BertBatch whole = *loader.next();
    const Tensor loss = s.loss(whole);
    loss.backward();
    const std::vector<double> gradients = s.gradients();

    loader.seek({});
    loader.cut(8, 0, 8);
    double tokens = 0, sum = 0, mean_of_means = 0;
    const auto blocks = *loader.next_blocks();
    for (const std::optional<datasets::BertBatch>& b : blocks) tokens += BertKind::weight(*b);
    CHECK(tokens == BertKind::weight(whole));
    for (const std::optional<datasets::BertBatch>& b : blocks) {
      const double share = BertKind::weight(*b) / tokens;
      const Tensor part = s.loss(*b);
      sum += share * part.item<double>();
      (part * share).backward();
      datasets::BertBatch alone = *b;
      alone.whole = {.words = b->words.numel(), .pairs = pairs ? b->next.numel() : 0};
      NoGradGuard no_grad;
      mean_of_means += share * s.loss(alone).item<double>();
    }
    // The bound: 500 roundings of numbers below 8.
    const double bound = 8 * 500 * std::ldexp(1.0, -53);
    CHECK(std::abs(sum - loss.item<double>()) <= bound);
    CHECK(std::abs(mean_of_means - loss.item<double>()) > 1e-6);
    const std::vector<double> added = s.gradients();
    REQUIRE(added.size() == gradients.size());
    double most = 0;
    for (size_t i = 0; i < added.size(); ++i)
      most = std::max(most, std::abs(added[i] - gradients[i]));
    CHECK(most <= bound);
  }
}

}  // namespace tern::apps::lm::test_lm_blocks
