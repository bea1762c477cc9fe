// How the app decodes: int8, and what is left out for speed.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/apps/translate/model.h"
#include "tern/core/base/allocator.h"
#include "tern/core/base/error.h"

using namespace tern;
using namespace tern::apps::translate;

namespace {

TranslationModel make_model(const char* kind, const char* tie = "none") {
  ModelConfig c{.model = kind, .layers = 2, .dim = 32, .hidden = 16, .heads = 4, .ffn = 40};
  c.tie = tie;
  c.source_vocab = c.target_vocab = 50;
  TranslationModel model(c, 5);
  nn::set_training(model, false);
  return model;
}

const std::vector<std::vector<int64_t>> kSources = {
    {4, 9, 30, 11}, {}, {7}, {49, 48, 5, 5, 6, 21, 33}, {12, 13}, {40, 8, 19}};

}  // namespace

TEST_CASE("search: int8 of a transformer is near its f32, other models have none") {
  const TranslationModel model = make_model("transformer");
  const auto exact = Search(model, {})(kSources);
  const auto rounded = Search(model, {.int8 = true})(kSources);
  double difference = 0;
  for (size_t i = 0; i < kSources.size(); ++i) {
    if (rounded[i][0].tokens != exact[i][0].tokens) continue;
    difference = std::max(difference, std::abs(rounded[i][0].log_prob - exact[i][0].log_prob));
  }
  CHECK(difference > 0);  // it was rounded
  CHECK(difference < 0.5);
  for (const char* other : {"bahdanau", "seq2seq"})
    CHECK_THROWS_WITH_AS(Search(make_model(other), {.int8 = true}),
                         doctest::Contains("only a transformer decodes so"), Error);
}

TEST_CASE("search: a model that is given away translates the same, in less memory") {
  const int64_t before = memory_stats().live;
  auto keep = [&](TranslationModel model, const SearchOptions& o) {
    const Search search(model, o);
    return std::pair(search(kSources), memory_stats().live - before);
  };
  auto give = [&](TranslationModel model, const SearchOptions& o) {
    const Search search(std::move(model), o);
    return std::pair(search(kSources), memory_stats().live - before);
  };
  struct Row {
    const char *kind, *tie;
    bool int8;
  };
  const Row rows[] = {{"transformer", "none", false},   {"transformer", "none", true},
                      {"transformer", "target", false}, {"transformer", "all", true},
                      {"bahdanau", "none", false},      {"seq2seq", "none", false}};
  for (const Row& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.tie);
    const auto [kept, both] = keep(make_model(row.kind, row.tie), {.int8 = row.int8});
    const auto [given, alone] = give(make_model(row.kind, row.tie), {.int8 = row.int8});
    for (size_t i = 0; i < kSources.size(); ++i) {
      CHECK(given[i][0].tokens == kept[i][0].tokens);
      CHECK(given[i][0].log_prob == kept[i][0].log_prob);
    }
    // Weights of two layers of the encoder and two of the decoder.
    if (row.kind == std::string("transformer"))
      CHECK(alone < both - 4 * (2 * (4 + 8) * 32 * 32 + 4 * 2 * 32 * 40));
  }
  CHECK_THROWS_WITH_AS(give(make_model("bahdanau"), {.int8 = true}),
                       doctest::Contains("only a transformer decodes so"), Error);
}

TEST_CASE("search: without log probabilities, the same tokens") {
  const TranslationModel model = make_model("transformer");
  const auto with = Search(model, {})(kSources);
  const auto without = Search(model, {.log_probs = false})(kSources);
  REQUIRE(without.size() == kSources.size());
  CHECK(without[1][0].tokens.empty());
  for (size_t i = 0; i < kSources.size(); ++i) {
    CHECK(without[i][0].tokens == with[i][0].tokens);
    CHECK(std::isnan(without[i][0].log_prob) == !kSources[i].empty());
  }
}
