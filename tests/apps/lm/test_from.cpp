// lm train --from DIR only reads DIR; the new run needs another folder.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_from {
namespace {

TEST_CASE("lm: the folder of --from stays unchanged, cannot be --out, and is named in the report") {
  for (const char* model : {"gpt", kBert}) {
    CAPTURE(model);
    test::TempDir dir;
    std::string text;
    for (int i = 0; i < 12; ++i) text += "The cat sat on the mat.\nIt saw the dog.\n\n";
    LmFlags o;
    o.config.text = {test::write_file(dir / "text", text)};
    o.config.hold_out = 0.2;
    o.config.vocab_size = model == std::string("gpt") ? 280 : 257;
    o.config.model.model = model;
    o.config.model.context = 16;
    o.config.model.layers = 1;
    o.config.model.dim = 16;
    o.config.epochs = 1;
    o.config.warmup = 0;
    o.train.out = dir / "base";
    REQUIRE(train_lm(o) == 0);
    const auto files = [&] {
      std::map<std::string, std::string> found;
      for (const auto& entry : std::filesystem::directory_iterator(dir / "base"))
        found[entry.path().filename().string()] = test::read_file(entry.path().string());
      return found;
    };
    const auto before = files();
    o.config.from = dir / "base";
    o.train.out = dir / "base/../base";
    CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("this is the folder of --from"), Error);
    o.train.out = dir / "tuned";
    REQUIRE(train_lm(o) == 0);
    CHECK(files() == before);
    CHECK(test::contains(test::read_file(dir / "tuned/report.html"),
                         "starts from the weights of " + (dir / "base")));
    std::filesystem::remove_all(dir / "base");
    LmFlags again;
    again.train.resume = dir / "tuned";
    CHECK(train_lm(again) == 0);  // finished; it writes the report again
  }
}

/// The training of a Llama in dir/base.
LmFlags small_llama(const test::TempDir& dir) {
  LmFlags o;
  std::string text;
  for (int i = 0; i < 30; ++i) text += "The cat sat on the mat.\nIt saw the dog.\n\n";
  o.config.text = {test::write_file(dir / "text", text)};
  o.config.vocab_size = 280;
  o.config.model.model = "llama";
  o.config.model.tie = o.config.model.bias = false;
  o.config.model.context = 24;
  o.config.model.layers = 1;
  o.config.model.dim = 16;
  o.config.model.dropout = 0.25;
  o.config.epochs = 1;
  o.config.warmup = 0;
  o.train.out = dir / "base";
  return o;
}

TEST_CASE(
    "lm: a published model is tuned on windows of --context, with its dropout and a low rate") {
  test::TempDir dir;
  LmFlags o = small_llama(dir);
  REQUIRE(train_lm(o) == 0);
  std::filesystem::remove(dir / "base/lm.json");  // now it is a folder as transformers writes it

  LmFlags tune = o;
  tune.config.from = dir / "base";
  tune.config.model = {};
  tune.config.model.context = 8;
  tune.given = {"model.context"};
  tune.train.out = dir / "tuned";
  REQUIRE(train_lm(tune) == 0);
  const TrainConfig tuned = load_config({dir / "tuned"});
  CHECK(tuned.window == 8);
  CHECK(tuned.model.context == 24);
  CHECK(tuned.model.dropout == 0.25);
  CHECK(tuned.lr == kFineTuneRate);
  for (const char* name : {"tokenizer.json", "config.json", "tokenizer_config.json"}) {
    CAPTURE(name);
    CHECK(test::read_file(dir / ("tuned/" + std::string(name))) ==
          test::read_file(dir / ("base/" + std::string(name))));
  }
  const LoadedModel loaded = load_folder(dir / "tuned");
  CHECK(loaded.model.config().context == 24);
  CHECK(loaded.tokenizer.is_end(*loaded.tokenizer.id(kEndOfText)));

  LmFlags resumed;
  resumed.train.resume = dir / "tuned";
  CHECK(train_lm(resumed) == 0);  // finished

  tune.given = {"lr", "model.dropout"};
  tune.config.lr = 1e-3;
  tune.config.model.dropout = 0.5;
  tune.train.out = dir / "other";
  REQUIRE(train_lm(tune) == 0);
  const TrainConfig other = load_config({dir / "other"});
  CHECK(other.lr == 1e-3);
  CHECK(other.model.dropout == 0.5);
  CHECK(other.window == 24);  // the context of the model, which is below kFineTuneWindow

  tune.given = {"model.context"};
  tune.config.model.context = 25;
  tune.train.out = dir / "wide";
  CHECK_THROWS_WITH_AS(train_lm(tune), doctest::Contains("--context 25 is above the model's"),
                       Error);
}

TEST_CASE("lm: a model trained with the tokenizer of another one, and tuned, is loaded with it") {
  test::TempDir dir;
  LmFlags o = small_llama(dir);
  REQUIRE(train_lm(o) == 0);
  std::filesystem::create_directory(dir / "tokens");  // a published one: <s> is in front of texts
  nlohmann::json tokenizer = nlohmann::json::parse(test::read_file(dir / "base/tokenizer.json"));
  nlohmann::json& added = tokenizer["added_tokens"];
  added.push_back(added[0]);
  added[1]["content"] = "<s>";
  const int64_t first = added[1]["id"] = added[0]["id"].get<int64_t>() + 1;
  tokenizer["post_processor"] = nlohmann::json::parse(
      R"({"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
          "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                     {"Sequence": {"id": "A", "type_id": 0}}],
          "special_tokens": {"<s>": {"id": "<s>", "ids": [], "tokens": ["<s>"]}}})");
  tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"] = {first};
  test::write_file(dir / "tokens/tokenizer.json", tokenizer.dump());

  o.config.tokenizer = dir / "tokens";
  o.train.out = dir / "run";
  REQUIRE(train_lm(o) == 0);
  LmFlags tune = o;
  tune.config.tokenizer = "";
  tune.config.from = dir / "run";
  tune.config.model = {};
  tune.train.out = dir / "tuned";
  REQUIRE(train_lm(tune) == 0);
  for (const char* run : {"run", "tuned"}) {
    CAPTURE(run);
    const LoadedModel loaded = load_folder(dir / run);
    CHECK(loaded.tokenizer.boundary() == first);
    CHECK(loaded.tokenizer.is_end(first));  // training puts it between texts
    CHECK(loaded.tokenizer.encode("a<s>").back() == first);
    const auto config =
        nlohmann::json::parse(test::read_file(dir / (run + std::string("/tokenizer_config.json"))));
    CHECK(config["eos_token"] == "<s>");
  }
}

/// Dropout on residual connections, embeddings and attention.
std::vector<double> dropouts(const std::string& run) {
  const models::GptOptions o = gpt_options(load_config({run}).model);
  return {o.dropout, o.embed_dropout.value_or(o.dropout), o.attention_dropout.value_or(o.dropout)};
}

TEST_CASE("lm: a published Llama's dropout is that of attention, a run's own is everywhere") {
  using Dropouts = std::vector<double>;
  test::TempDir dir;
  const LmFlags o = small_llama(dir);
  REQUIRE(train_lm(o) == 0);
  CHECK(dropouts(dir / "base") == Dropouts{0.25, 0.25, 0.25});

  LmFlags tune = o;
  tune.config.from = dir / "base";
  tune.config.model = {};
  tune.config.model.dropout = 0;
  const auto tuned = [&](const char* name, std::vector<std::string> given) {
    tune.given = std::move(given);
    tune.train.out = dir / name;
    REQUIRE(train_lm(tune) == 0);
    return dropouts(dir / name);
  };
  std::filesystem::remove(dir / "base/lm.json");  // config.json says it, too
  CHECK(tuned("own", {}) == Dropouts{0.25, 0.25, 0.25});

  nlohmann::json config = nlohmann::json::parse(test::read_file(dir / "base/config.json"));
  CHECK(config["attention_dropout"] == 0.25);
  CHECK(config.erase("tern_resid_pdrop") + config.erase("tern_embd_pdrop") == 2);
  test::write_file(dir / "base/config.json", config.dump());  // as transformers writes it
  CHECK(tuned("published", {}) == Dropouts{0, 0, 0.25});
  CHECK(tuned("none", {"model.dropout"}) == Dropouts{0, 0, 0});
  tune.config.model.dropout = 0.25;
  CHECK(tuned("all", {"model.dropout"}) == Dropouts{0.25, 0.25, 0.25});
}

}  // namespace
}  // namespace tern::apps::lm::test_from
