// translate train --from: fine-tunes a trained model on other pairs.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "tern/apps/translate/program.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"

namespace tern::apps::translate::test_from {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

TranslateFlags parse(Words words, const Words& more = {}) {
  words.insert(words.end(), more.begin(), more.end());
  return test::parsed(translate_program, "translate", std::move(words));
}

int train_by(const Words& words, const Words& more = {}) {
  return train_translation(parse(words, more));
}

/// Every file of a folder.
std::map<std::string, std::string> files_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = test::read_file(entry.path().string());
  return files;
}

/// Two corpora, and a model trained on the first.
struct Desk {
  test::TempDir dir;
  std::string base = dir / "base", other = dir / "other.tsv";

  explicit Desk(const std::string& model) {
    std::string first, second;
    for (int i = 0; i < 12; ++i) {
      first += "a cat sleeps\tun chat dort\nthe dog eats\tle chien mange\n";
      second += "a dog sleeps\tun chien dort\nthe bird eats\tl' oiseau mange\n";
    }
    test::write_file(other, second);
    Words words = {
        "train",      "--model", model,        "--pairs", test::write_file(dir / "a", first),
        "--hold-out", "4",       "--dim",      "8",       "--dropout",
        "0.3",        "--ema",   "0",          "--out",   base,
        "--epochs",   "2",       "--min-freq", "1"};
    const Words sizes = model == "transformer"
                            ? Words{"--heads", "2", "--ffn", "12", "--layers", "1", "--norm-first"}
                            : Words{"--hidden", "6"};
    words.insert(words.end(), sizes.begin(), sizes.end());
    words.insert(words.end(), {"--preset", "multi30k-transformer"});
    REQUIRE(train_by(words) == 0);
  }
  Words more(const std::string& out, const std::string& epochs) const {
    return {"train", "--from", base, "--pairs",    other,      "--epochs", epochs,   "--hold-out",
            "4",     "--ema",  "0",  "--schedule", "constant", "--out",    dir / out};
  }
};

TEST_CASE("translate: a fine-tuned model starts with the weights, tokens and sizes of its folder") {
  for (const char* model : {"transformer", "bahdanau", "seq2seq"}) {
    CAPTURE(model);
    const Desk desk(model);
    const auto before = files_in(desk.base);
    CHECK(test::contains(before.at("report.html"),
                         "validation pairs that are training pairs too: 4 of 4"));
    REQUIRE(train_by(desk.more("still", "1"), {"--lr", "1e-30"}) == 0);  // changes no weight
    REQUIRE(train_by(desk.more("moved", "1"), {"--lr", "0.01", "--dropout", "0.1"}) == 0);
    CHECK(files_in(desk.base) == before);
    const auto still = files_in(desk.dir / "still"), moved = files_in(desk.dir / "moved");
    const Translator a = load_translator(desk.base), b = load_translator(desk.dir / "still");
    test::check_same(nn::state_dict(a.model), nn::state_dict(b.model));
    CHECK(moved.at("model.safetensors") != before.at("model.safetensors"));
    for (const char* file : {"source.json", "target.json"}) {
      CHECK(still.at(file) == before.at(file));
      CHECK(moved.at(file) == before.at(file));
    }
    const TrainConfig c = load_config({desk.dir / "moved"}), first = load_config({desk.base});
    CHECK(c.from == desk.base);
    CHECK(c.model.model == model);
    CHECK(c.model.dim == 8);
    CHECK(c.model.dropout == 0.1);
    CHECK(load_config({desk.dir / "still"}).model.dropout == 0.3);
    CHECK(c.model.norm_first == first.model.norm_first);
    CHECK(c.model.length_ratio >= first.model.length_ratio);
    const std::string page = moved.at("report.html");
    CHECK(test::contains(page, "starts from the weights of " + desk.base));
    // Half of the 20 training pairs have "the bird eats", unknown to the model, and "l' oiseau
    // mange".
    CHECK(test::contains(page, "unknown to " + desk.base + ": "));
    CHECK_FALSE(test::contains(page, ": 0.00 %"));
  }
}

TEST_CASE("translate: a stopped fine-tuning resumes bit for bit, without the folder of --from") {
  for (const char* model : {"transformer", "bahdanau"}) {
    CAPTURE(model);
    const Desk desk(model);
    REQUIRE(train_by(desk.more("whole", "3")) == 0);
    REQUIRE(train_by(desk.more("part", "2")) == 0);
    fs::remove_all(desk.base);
    REQUIRE(train_by({"train", "--resume", desk.dir / "part", "--epochs", "3"}) == 0);
    for (const char* file : {"model.safetensors", "config.json"})
      CHECK(test::read_file(desk.dir / "part" + "/" + file) ==
            test::read_file(desk.dir / "whole" + "/" + file));
  }
}

TEST_CASE("translate: flags cannot change what the folder of --from determines") {
  const Desk desk("transformer");
  for (const Words& flags : std::vector<Words>{{"--dim", "16"},
                                               {"--model", "bahdanau"},
                                               {"--heads", "1"},
                                               {"--tokens", "bpe"},
                                               {"--shared"},
                                               {"--no-lowercase"},
                                               {"--norm-last"},
                                               {"--min-freq", "2"}}) {
    CAPTURE(flags[0]);
    CHECK_THROWS_WITH_AS(parse(desk.more("x", "1"), flags), doctest::Contains("would change"),
                         Error);
  }
  // Recomputation is a choice of the training, and only a transformer has it.
  CHECK(parse(desk.more("x", "1"), {"--recompute", "full"}).config.memory_use.recompute == "full");
  CHECK_THROWS_WITH_AS(parse(desk.more("x", "1"), {"--bpe-dropout", "0.1"}),
                       "--bpe-dropout 0.1 needs --tokens bpe, not words", Error);
  const Desk recurrent("seq2seq");
  CHECK_THROWS_WITH_AS(parse(recurrent.more("x", "1"), {"--recompute", "full"}),
                       doctest::Contains("a seq2seq has no blocks"), Error);

  const auto before = files_in(desk.base);
  const std::string same = desk.base + "/../base/";
  for (const std::string& out : {desk.base, same}) {
    Words words = desk.more("x", "1");
    words.back() = out;
    CHECK_THROWS_WITH_AS(train_by(words), doctest::Contains("this is the folder of --from"), Error);
  }
  CHECK(files_in(desk.base) == before);
  CHECK_THROWS_WITH_AS(parse({"train", "--from", desk.dir / "nowhere", "--pairs", desk.other}),
                       doctest::Contains("nowhere"), IoError);
  const std::string young = desk.dir / "young";
  fs::copy(desk.base, young);
  for (const char* file : {"/model.safetensors", "/log.jsonl"}) fs::remove(young + file);
  CHECK_THROWS_WITH_AS(parse({"train", "--from", young, "--pairs", desk.other}),
                       doctest::Contains("young: this run has no weights yet"), IoError);
  // Weights that do not match the folder's configuration leave no new run behind.
  fs::copy_file(recurrent.base + "/model.safetensors", desk.base + "/model.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(train_by(desk.more("x", "1")), doctest::Contains("not the weights that"),
                       IoError);
  CHECK_FALSE(fs::exists(desk.dir / "x"));
}

TEST_CASE("translate: a fine-tuned model keeps the direction of its folder") {
  const Desk desk("seq2seq");
  CHECK_FALSE(parse(desk.more("x", "1")).config.reverse);
  CHECK(parse(desk.more("x", "1"), {"--reverse"}).config.reverse);
  const Words files = {"train", "--from", desk.base, "--source", "a.en", "--target", "b.fr"};
  CHECK_FALSE(parse(files).config.reverse);

  TrainConfig reversed = load_config({desk.base});
  reversed.reverse = true;
  save_config(desk.base + "/config.json", settings_of(reversed));
  CHECK(parse(desk.more("x", "1")).config.reverse);
  CHECK_FALSE(parse(desk.more("x", "1"), {"--no-reverse"}).config.reverse);
  // Which of two files has the language that the model reads is for the user to say.
  CHECK_THROWS_WITH_AS(parse(files),
                       doctest::Contains("give --reverse if it should translate b.fr into a.en, or "
                                         "--no-reverse for a.en into b.fr"),
                       Error);
  CHECK(parse(files, {"--reverse"}).config.reverse);
  CHECK_FALSE(parse(files, {"--no-reverse"}).config.reverse);
}

}  // namespace
}  // namespace tern::apps::translate::test_from
