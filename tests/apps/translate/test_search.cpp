// Decoding in translate: bf16, int8, shortlists, and searches that take over the model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tern/apps/translate/program.h"
#include "tern/core/base/allocator.h"
#include "tern/core/base/error.h"
#include "tern/core/base/precision.h"
#include "tern/core/io/safetensors.h"
#include "tern/tests/apps/translate/open_text.h"
#include "tern/tests/onnx/onnx_reader.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_search {
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

TEST_CASE("search: bf16 and int8 of a transformer are close to its f32") {
  const TranslationModel model = make_model("transformer");
  const auto exact = Search(model, {})(kSources);
  for (const bool int8 : {false, true}) {
    CAPTURE(int8);
    const MatmulPrecisionScope scope(int8 ? MatmulPrecision::f32 : MatmulPrecision::bf16);
    const Search search(model, {.int8 = int8});
    const MatmulPrecisionScope later(MatmulPrecision::f32);  // the weights are packed by now
    const auto rounded = search(kSources);
    double difference = 0;
    for (size_t i = 0; i < kSources.size(); ++i) {
      if (rounded[i][0].tokens != exact[i][0].tokens) continue;
      difference = std::max(difference, std::abs(rounded[i][0].log_prob - exact[i][0].log_prob));
    }
    CHECK(difference > 0);  // rounding has an effect
    CHECK(difference < 0.5);
  }
}

TEST_CASE("search: int8 and int4 are refused for models without it, and beside bf16") {
  for (const char* other : {"bahdanau", "seq2seq"})
    CHECK_THROWS_WITH_AS(Search(make_model(other), {.int8 = true}),
                         doctest::Contains("works only with a transformer"), Error);
  CHECK_THROWS_WITH_AS(Search(make_model("seq2seq"), {.int4 = true}),
                       doctest::Contains("--int4 works only with a transformer"), Error);
  CHECK_THROWS_WITH_AS(Search(make_model("transformer"), {.int8 = true, .int4 = true}),
                       doctest::Contains("--int8 and --int4"), Error);
  const MatmulPrecisionScope scope(MatmulPrecision::bf16);
  CHECK_THROWS_WITH_AS(Search(make_model("transformer"), {.int8 = true}),
                       doctest::Contains("--int8 and --precision bf16"), Error);
  CHECK_THROWS_WITH_AS(Search(make_model("transformer"), {.int4 = true}),
                       doctest::Contains("--int4 and --precision bf16"), Error);
}

TEST_CASE("search: a search that takes over the model gives the same translations in less memory") {
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
    // The weights of two encoder and two decoder layers.
    if (row.kind == std::string("transformer"))
      CHECK(alone < both - 4 * (2 * (4 + 8) * 32 * 32 + 4 * 2 * 32 * 40));
  }
  CHECK_THROWS_WITH_AS(give(make_model("bahdanau"), {.int8 = true}),
                       doctest::Contains("works only with a transformer"), Error);
}

TEST_CASE("search: without log probabilities the tokens are the same") {
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

namespace {

std::shared_ptr<const datasets::Lexicon> lexicon_of(int64_t vocab) {
  std::vector<datasets::EncodedPair> pairs;
  for (const auto& s : kSources)
    if (!s.empty()) pairs.push_back({s, {s.rbegin(), s.rend()}});
  return std::make_shared<datasets::Lexicon>(
      datasets::Lexicon::learn(pairs, {.source_vocab = vocab, .target_vocab = vocab, .most = 10}));
}

}  // namespace

TEST_CASE("search: with a shortlist only words of the list occur") {
  const TranslationModel model = make_model("transformer");
  const auto lexicon = lexicon_of(50);
  for (const bool int8 : {false, true})
    for (const int64_t beam : {1, 3}) {
      const auto found =
          Search(model, {.beam = beam, .int8 = int8, .shortlist = 2, .lexicon = lexicon})(kSources);
      for (size_t i = 0; i < kSources.size(); ++i) {
        const std::vector<int64_t> list = lexicon->candidates(kSources[i], 2);
        for (const int64_t t : found[i][0].tokens)
          CHECK(std::binary_search(list.begin(), list.end(), t));
      }
      const auto all = Search(model, {.beam = beam, .int8 = int8})(kSources);
      CHECK(found[3][0].tokens != all[3][0].tokens);
    }
}

TEST_CASE("search: a shortlist is refused without a transformer or a lexicon") {
  const auto lexicon = lexicon_of(50);
  CHECK_THROWS_WITH_AS(Search(make_model("bahdanau"), {.shortlist = 2, .lexicon = lexicon}),
                       doctest::Contains("works only with a transformer"), Error);
  CHECK_THROWS_WITH_AS(Search(make_model("transformer"), {.shortlist = 2}),
                       doctest::Contains("there is no lexicon"), Error);
  CHECK_THROWS_WITH_AS(
      Search(make_model("transformer"), {.shortlist = 2, .lexicon = lexicon_of(51)}),
      doctest::Contains("vocabularies of 51 and 51, but the model has 50 and 50"), Error);
}

TEST_CASE("translate tune: keeps the length penalty of the highest BLEU in the model's folder") {
  test::TempDir dir;
  TranslateFlags o;
  o.config.first = 400;
  o.config.model = {.layers = 1, .dim = 32, .heads = 2, .ffn = 64};
  o.config.batch = 32;
  o.config.lr = 3e-3;
  o.config.epochs = 12;
  o.train.out = o.model = dir / "model";
  REQUIRE(train_translation(o) == 0);
  o.tuned_beam = 3;
  CHECK(tune_search(o) == 0);
  Tuned tuned{-1};
  apps::load_config(dir / "model/tuned.json", apps::settings_of(tuned));
  const Translator t = load_translator(o.model);
  const Sides sides = sides_of(read_pair_files(t.config).valid);
  const auto bleu = [&](double alpha) {
    std::vector<std::string> found;
    for (const auto& best :
         translate_lines(Search(t.model, {.beam = 3, .alpha = alpha}), t.tokenizers, sides.sources))
      found.push_back(best[0].text);
    return datasets::corpus_bleu(found, sides.references).score;
  };
  const double highest = bleu(tuned.alpha);
  double lowest = highest;
  for (const double alpha : {0., .6, 1.2, 1.8, 2.4, 3.}) {
    CHECK(bleu(alpha) <= highest);
    lowest = std::min(lowest, bleu(alpha));
  }
  CHECK(lowest < highest);
  // Searches use it unless another one is given.
  const TrainConfig config = load_config({o.model});
  CHECK(completed({}, {}, {o.model}, config).alpha == tuned.alpha);
  CHECK(completed({}, 0.25, {o.model}, config).alpha == 0.25);
  test::write_file(dir / "model/tuned.json", "{\"alpha\": 11}");
  CHECK_THROWS_WITH_AS(completed({}, {}, {o.model}, config), doctest::Contains("tuned.json"),
                       IoError);
  test::write_file(dir / "model/tuned.json", "{\"alpha\": 1, \"aplha\": 2}");
  CHECK_THROWS_WITH_AS(completed({}, {}, {o.model}, config),
                       doctest::Contains("knows no \"aplha\"; did you mean alpha?"), IoError);
  o.config.hold_out = 0;
  o.train.out = o.model = dir / "without";
  REQUIRE(train_translation(o) == 0);
  CHECK_THROWS_WITH_AS(tune_search(o), doctest::Contains("held no pairs out"), Error);
  CHECK(completed({}, {}, {o.model}, config).alpha == SearchOptions().alpha);
}

TEST_CASE("translate tune: refuses pairs that have changed since the training") {
  test::TempDir dir;
  TranslateFlags o;
  std::string text;
  for (int i = 0; i < 40; ++i) text += fmt::format("number {}\tnombre {}\n", i, i);
  o.config.pairs = test::write_file(dir / "pairs.tsv", text);
  o.config.hold_out = 5;
  o.config.model = {.layers = 1, .dim = 16, .heads = 2, .ffn = 32};
  o.config.epochs = 1;
  o.train.out = o.model = dir / "model";
  REQUIRE(train_translation(o) == 0);
  o.config.pairs.clear();
  REQUIRE(tune_search(o) == 0);
  test::write_file(dir / "pairs.tsv", text + "one more\tun de plus\n");
  CHECK_THROWS_WITH_AS(tune_search(o), doctest::Contains("its pairs have changed since"), Error);
  o.pairs = dir / "pairs.tsv";
  CHECK(tune_search(o) == 0);
}

TEST_CASE(
    "translate tune: without differences it writes nothing; training that replaces the weights "
    "removes what it found") {
  test::TempDir dir;
  TranslateFlags o;
  o.config.first = 200;
  o.config.model = {.layers = 1, .dim = 16, .heads = 2, .ffn = 32};
  o.config.batch = 32;
  o.config.epochs = 1;
  o.config.schedule = "constant";
  o.train.out = o.model = dir / "model";
  REQUIRE(train_translation(o) == 0);
  const std::string tuned = dir / "model/tuned.json", found = "{\"alpha\": 1.8}";
  o.pairs = test::write_file(dir / "pairs", "A cat sleeps.\tzzz\n");  // BLEU is 0 with any alpha
  REQUIRE(tune_search(o) == 0);
  CHECK_FALSE(std::filesystem::exists(tuned));
  test::write_file(tuned, found);
  REQUIRE(tune_search(o) == 0);
  CHECK(test::read_file(tuned) == found);
  o.train.resume = o.model;
  REQUIRE(train_translation(o) == 0);  // there is nothing left to train
  CHECK(std::filesystem::exists(tuned));
  o.train.epochs = 3;
  REQUIRE(train_translation(o) == 0);
  CHECK_FALSE(std::filesystem::exists(tuned));
}

TEST_CASE("translate shortlist: learns from files and writes into the model's folder") {
  test::TempDir dir;
  TranslateFlags o;
  o.config.first = 30;
  o.config.model = {.layers = 1, .dim = 16, .heads = 2, .ffn = 20};
  o.config.tokens = "words";
  o.config.min_freq = 1;
  o.config.epochs = 1;
  o.train.out = o.model = dir / "model";
  REQUIRE(train_translation(o) == 0);
  o.search.shortlist = 20;
  const auto translate = [&] {
    std::ostringstream out;
    return run_translations(o, test::OpenText("A cat sleeps.").descriptor(), out);
  };
  CHECK_THROWS_WITH_AS(translate(), doctest::Contains("translate shortlist"), IoError);
  o.source = test::write_file(dir / "source", "a cat sleeps .\na dog eats .\n\n");
  o.target = test::write_file(dir / "target", "un chat dort .\nun chien mange .\n\n");
  CHECK(learn_shortlist(o) == 0);
  CHECK(translate() == 0);
  CHECK(evaluate_model(o) == 0);
  o.search.shortlist = 101;
  CHECK_THROWS_WITH_AS(evaluate_model(o), doctest::Contains("100 translations"), Error);
  test::write_file(dir / "model/shortlist.safetensors", "x");
  CHECK_THROWS_AS(evaluate_model(o), IoError);
  save_safetensors(dir / "model/shortlist.safetensors", {});
  CHECK_THROWS_WITH_AS(evaluate_model(o),
                       doctest::Contains("shortlist.safetensors: Lexicon: needs"), IoError);
  test::write_file(o.source, "\n\n\n");
  CHECK_THROWS_WITH_AS(learn_shortlist(o), doctest::Contains("no pair"), Error);
  o.config.model = {.model = "seq2seq", .layers = 1, .dim = 16, .hidden = 12};
  o.train.out = o.model = dir / "recurrent";
  REQUIRE(train_translation(o) == 0);
  CHECK_THROWS_WITH_AS(learn_shortlist(o), doctest::Contains("only a transformer"), Error);
  o.search.shortlist = 20;
  CHECK_THROWS_WITH_AS(translate(), doctest::Contains("only with a transformer"), Error);
  o.out = dir / "exported";
  CHECK(export_model(o) == 0);
  CHECK(test::OnnxFile(dir / "exported/encoder.onnx").outputs[1].name == "past.c");
  CHECK(test::OnnxFile(dir / "exported/decoder.onnx").outputs[2].name == "present.c");
  o.attention = dir / "attention.html";
  o.sentence = "";
  CHECK_THROWS_WITH_AS(plot_attention(o), doctest::Contains("no attention to show"), Error);
}

}  // namespace tern::test_search
