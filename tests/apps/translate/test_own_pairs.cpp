// The user's own pairs: what the preset chooses by the data, and which messages the program prints.
#include <doctest/doctest.h>

#include "tern/apps/translate/program.h"
#include "tern/tests/apps/parsed_flags.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::translate::test_own_pairs {
namespace {

using test::contains;
using test::TempDir;
using test::write_file;
using Words = std::vector<std::string>;

TranslateFlags parse(Words words) {
  words.insert(words.begin(), "train");
  return test::parsed(translate_program, "translate", std::move(words));
}

PairFiles pairs_of(
    int64_t train, int64_t valid,
    const std::string& source = "The quick brown fox jumps over lazy dogs.",
    const std::string& target = "Le rapide renard brun saute par-dessus les chiens.") {
  PairFiles files;
  files.train.assign(static_cast<size_t>(train), {source, target});
  files.valid.assign(static_cast<size_t>(valid), {source, target});
  return files;
}

TrainConfig chosen(const Words& words, const PairFiles& files) {
  TranslateFlags f = parse(words);
  choose_by_pairs(f.config, f.given, files);
  return f.config;
}

/// Writes a file of pairs with capital letters.
std::string a_file(const std::string& path, int repeats) {
  std::string text;
  for (int i = 0; i < repeats; ++i)
    text +=
        "Stop the cat!\tArr\u00eate le chat !\nI see Tom.\tJe vois Tom.\n"
        "Tom sees the dog.\tTom voit le chien.\n";
  return write_file(path, text);
}

}  // namespace

TEST_CASE("own pairs: sizes, vocabulary and epochs depend on the pairs; a given flag counts") {
  const Words own = {"--pairs", "p"};
  const TrainConfig few = chosen(own, pairs_of(20, 0)), some = chosen(own, pairs_of(5700, 300)),
                    many = chosen(own, pairs_of(200'000, 1000));
  for (const TrainConfig& c : {few, some, many}) {
    CHECK(c.preset == kOwn);
    CHECK(c.tokens == "bpe");
    CHECK_FALSE(c.lowercase);
    CHECK(c.shared);
    CHECK(c.model.tie == "all");
    CHECK((c.optimizer == "muon" && c.lr == 5e-3));
    CHECK_NOTHROW(check_config(c));
  }
  CHECK(few.bpe == 200);
  CHECK(few.epochs == 40);
  CHECK(few.best == "loss");
  CHECK(some.bpe == 5700 / 4);
  CHECK(some.epochs == 40);
  CHECK(some.best == "bleu");
  CHECK(some.model.dim == 128);
  CHECK(some.model.dropout == 0.1);
  CHECK(many.bpe == 16'000);
  CHECK(many.epochs == 5);
  CHECK(many.model.dim == 256);
  CHECK(many.model.ffn == 1024);
  CHECK(many.model.dropout == 0.1);
  CHECK(few.batch_tokens < many.batch_tokens);

  const TrainConfig given = chosen(
      {"--pairs", "p", "--bpe", "77", "--epochs", "2", "--no-shared", "--dim", "64",
       "--batch-tokens", "333", "--best", "loss", "--dropout", "0.2", "--lr", "0.5", "--lowercase"},
      pairs_of(200'000, 1000));
  CHECK(given.bpe == 77);
  CHECK(given.epochs == 2);
  CHECK_FALSE(given.shared);
  CHECK(given.model.tie == "target");
  CHECK(given.model.dim == 64);
  CHECK(given.batch_tokens == 333);
  CHECK(given.best == "loss");
  CHECK(given.model.dropout == 0.2);
  CHECK(given.lr == 0.5);
  CHECK(given.lowercase);
  CHECK_NOTHROW(check_config(given));
  CHECK_NOTHROW(parse({"--pairs", "p", "--max-length", "3000"}));
  const TrainConfig recurrent = chosen({"--pairs", "p", "--model", "seq2seq"}, pairs_of(900, 0));
  CHECK(recurrent.model.tie == "none");
  CHECK(recurrent.model.layers == 1);
  CHECK((recurrent.optimizer == "adam" && recurrent.lr == 1e-3));
  const auto rate = [](Words flags, int64_t pairs) {
    flags.insert(flags.begin(), {"--pairs", "p"});
    const TrainConfig c = chosen(flags, pairs_of(pairs, 0));
    return std::pair(c.optimizer, c.lr);
  };
  CHECK(rate({"--optimizer", "adam"}, 900) == std::pair(std::string("adam"), 2e-3));
  CHECK(rate({"--optimizer", "adam"}, 100'000) == std::pair(std::string("adam"), 1e-3));
  CHECK(rate({"--optimizer-bits", "8"}, 900) == std::pair(std::string("adam"), 2e-3));
  CHECK(rate({"--weight-decay", "0.1"}, 900) == std::pair(std::string("muon"), 5e-3));
  CHECK(rate({"--schedule", "noam"}, 900) == std::pair(std::string("muon"), 1.0));
}

TEST_CASE("own pairs: languages with the same letters share a vocabulary") {
  const auto same = [](const char* source, const char* target) {
    return have_same_letters(pairs_of(5, 0, source, target).train);
  };
  CHECK(same("The cat sleeps, and the boy hears it.", "Le chat dort et l'\u00e9t\u00e9 est beau."));
  CHECK(!same("The cat sleeps.", "\u041a\u043e\u0448\u043a\u0430 \u0441\u043f\u0438\u0442."));
  CHECK(!same("The cat sleeps.", "\u732b\u304c\u5bdd\u308b\u3002"));
  CHECK(!same("Tom sleeps.", "Tom \u0441\u043f\u0438\u0442 \u0434\u043e\u043c\u0430."));
  const TrainConfig c = chosen({"--pairs", "p"}, pairs_of(9, 0, "The cat", "\u043a\u043e\u0442"));
  CHECK_FALSE(c.shared);
  CHECK(c.model.tie == "target");
  const TrainConfig one =
      chosen({"--pairs", "p", "--tie", "all"}, pairs_of(9, 0, "The cat", "\u043a\u043e\u0442"));
  CHECK(one.shared);
}

TEST_CASE("own pairs: without a limit on lengths a batch has room for the longest pair") {
  TempDir dir;
  std::string line;
  for (int i = 0; i < 400; ++i) line += "Stop the cat ! ";
  const std::string pairs = write_file(dir / "pairs", line + "\t" + line + "\nStop!\tStop!\n");
  const TranslateFlags f =
      parse({"--pairs", pairs, "--hold-out", "0", "--bpe", "1", "--max-length", "0"});
  TranslateProgram program(f.config, f.given);
  program.load(nullptr);
  CHECK(program.config.batch_tokens > std::ssize(program.corpus.train.pairs->at(0).source));
  CHECK_NOTHROW(static_cast<void>(training_batches(program.config, program.corpus)));
}

TEST_CASE("own pairs: a size that the pairs chose and a flag that contradicts it are an error") {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 102'000; ++i) text += "a\tb\n";
  const TranslateFlags f = parse({"--pairs", write_file(dir / "pairs", text), "--dim", "100"});
  TranslateProgram program(f.config, f.given);
  CHECK_THROWS_WITH_AS(program.load(nullptr), "--dim 100 is not a multiple of --heads 8", Error);
}

// As in the columns of docs/choosing.md and the first rows of the table in docs/results.md.
TEST_CASE("own pairs: the recipes in the documents stay the same under their names") {
  const TrainConfig c = parse({"--preset", "multi30k-transformer", "--pairs", "p"}).config;
  CHECK((c.optimizer == "adam" && c.lr == 5e-4 && c.schedule == "constant" && c.warmup == 0));
  CHECK((c.batch == 128 && c.batch_tokens == 0 && c.epochs == 10));
  CHECK((c.weight_decay == 0 && c.model.dropout == 0.1 && c.ema == 0.995 && c.clip == 1));
  CHECK((c.model.layers == 3 && c.model.dim == 256 && c.tokens == "words" && c.lowercase));
  const TrainConfig best = parse({"--preset", "multi30k-best", "--pairs", "p"}).config;
  CHECK((best.optimizer == "muon" && best.lr == 5e-3 && best.beta2 == 0.98));
  CHECK((best.schedule == "cosine" && best.warmup == 300 && best.epochs == 24));
  CHECK((best.batch_tokens == 2048 && best.ema == 0.999));
  CHECK((best.model.dropout == 0.1 && best.r_drop == 5));
  CHECK((best.model.layers == 4 && best.model.dim == 128 && best.bpe == 8000 && best.shared));
}

TEST_CASE(
    "own pairs: a run keeps capitals, and reports its choices, too few pairs, and missing scores") {
  TempDir dir;
  TranslateFlags f = parse({"--pairs", a_file(dir / "my pairs.tsv", 10), "--epochs", "2", "--dim",
                            "16", "--heads", "2", "--ffn", "16", "--layers", "1", "--hold-out", "0",
                            "--schedule", "constant", "--out", dir / "run"});
  REQUIRE(train_translation(f) == 0);
  const std::string page = test::read_file(dir / "run/report.html");
  for (const char* said :
       {"byte pairs for both languages, capitals are kept", "by the data: --bpe 200",
        "only 30 pairs for training: learning a language takes thousands",
        "nothing is held out, so no score says how well it translates; --hold-out N"})
    CHECK_MESSAGE(contains(page, said), said);
  const TrainConfig kept = load_config({dir / "run"});
  CHECK((kept.preset == kOwn && kept.bpe == 200 && kept.epochs == 2 && kept.model.dim == 16));
  const Tokenizers t = load_tokenizers({dir / "run"}, kept);
  CHECK(t.target.decode(t.target.encode("Arr\u00eate Tom !")) == "Arr\u00eate Tom !");
  CHECK(t.source.encode("Stop") != t.source.encode("stop"));
  // A resumed run keeps its choices, whatever its file of pairs would now suggest.
  TranslateFlags more = parse({"--resume", dir / "run", "--epochs", "3"});
  REQUIRE(train_translation(more) == 0);
  CHECK(load_config({dir / "run"}).bpe == 200);
}

TEST_CASE("own pairs: the warm-up is a tenth of the steps, also of --steps") {
  TempDir dir;
  const std::string pairs = a_file(dir / "pairs.tsv", 10);
  auto run = [&](const char* length, const char* count) {
    const std::string out = dir / fmt::format("run {}", count);
    TranslateFlags f =
        parse({"--pairs", pairs, length, count, "--dim", "16", "--heads", "2", "--ffn", "16",
               "--layers", "1", "--hold-out", "0", "--batch-tokens", "160", "--out", out});
    REQUIRE(train_translation(f) == 0);
    return std::pair(load_config({out}), test::read_file(out + "/report.html"));
  };
  const auto [by_steps, page] = run("--steps", "40");
  CHECK(by_steps.warmup == 4);
  CHECK(contains(page, "--warmup 4"));
  const auto [by_epochs, other] = run("--epochs", "60");
  CHECK(by_epochs.warmup > 4);
  // The steps count, so no epochs are chosen.
  const PairFiles many = pairs_of(200'000, 1000);
  CHECK(chosen({"--pairs", "p"}, many).epochs == 5);
  CHECK(chosen({"--pairs", "p", "--steps", "50"}, many).epochs ==
        parse({"--pairs", "p"}).config.epochs);
}

TEST_CASE("own pairs: lower case and unknown words are reported") {
  TempDir dir;
  std::string text = "Rare words\tmots rares\n";
  for (int i = 0; i < 5; ++i) text += "the cat\tle chat\n";
  TranslateFlags f = parse({"--pairs", write_file(dir / "p", text), "--preset",
                            "multi30k-transformer", "--epochs", "1", "--dim", "8", "--heads", "1",
                            "--ffn", "8", "--layers", "1", "--out", dir / "run"});
  REQUIRE(train_translation(f) == 0);
  const std::string page = test::read_file(dir / "run/report.html");
  CHECK(contains(page, "words, all text in lower case"));
  CHECK(contains(page, "rare words are unknown: 16.67 % of the source"));  // 2 of 12
  CHECK(contains(page, "--tokens bpe has no unknown words"));
}

TEST_CASE("own pairs: validation pairs that are training pairs too are counted") {
  PairFiles files;
  files.train = {{"The cat.", "Le chat."}, {"The cat.", "Le chat."}, {"A dog.", "Un chien."}};
  files.valid = {{"The  cat.", "Le chat."},
                 {"The cat.", "Le chat."},
                 {"The cat.", "Un chien."},
                 {"the cat.", "le chat."}};
  const auto remark = [&](Words words) {
    words.insert(words.end(), {"--pairs", "p"});
    const TrainConfig c = parse(words).config;
    return repeated_pairs_text(encode_corpus(c, files, learn_tokenizers(c, files.train)));
  };
  const std::string found = "validation pairs that are training pairs too: ";
  CHECK(remark({"--bpe", "20"}) == found + "2 of 4");
  CHECK(remark({"--bpe", "20", "--lowercase"}) == found + "3 of 4");
  // The dog is rare, and so unknown: other animals would have its id.
  CHECK(remark({"--preset", "multi30k-transformer"}) == found + "at least 3 of 4");
  files.valid = {{"The cat.", "Un chien."}, {"A dog.", "Le chat."}};
  CHECK(remark({"--bpe", "20"}).empty());
}

TEST_CASE("own pairs: the folder of the run is named after the file") {
  const auto name = [](const Words& words) {
    return TranslateProgram(parse(words).config).folder_name();
  };
  CHECK(name({"--pairs", "data/fra.tsv.gz"}) == "translate-fra");
  CHECK(name({"--pairs", "my pairs"}) == "translate-my pairs");
  CHECK(name({"--source", "a/train.de.gz", "--target", "b"}) == "translate-train.de");
  CHECK(name({}) == "translate-demo");
  CHECK(name({"--preset", "multi30k-best", "--pairs", "p"}) == "translate-multi30k-best");
}

TEST_CASE(
    "own pairs: the example sentences of --help and of a finished training have only known words") {
  TempDir dir;
  TranslateFlags f = parse({"--first", "400", "--epochs", "1", "--dim", "8", "--heads", "1",
                            "--ffn", "8", "--layers", "1", "--out", dir / "run"});
  TranslateProgram program(f.config, f.given);
  REQUIRE(train(program, f.train) == 0);
  const auto unknown = [&](const std::string& sentence) {
    const std::vector<int64_t> ids = program.tokenizers.source.encode(sentence);
    CHECK(ids.size() > 2);
    return std::count(ids.begin(), ids.end(), datasets::kUnknownId);
  };
  const std::string next = program.next("DIR").second;
  const std::string begin = "echo '", end = "' | translate run --model DIR";
  REQUIRE((next.starts_with(begin) && next.ends_with(end)));
  CHECK(unknown(next.substr(begin.size(), next.size() - begin.size() - end.size())) == 0);
  CHECK(unknown("i am cold .") > 0);  // the example of older versions
  char name[] = "translate";
  char* argv[] = {name};
  int sentences = 0;
  for (const Command& c : translate_program(f, 1, argv).commands)
    for (size_t at = 0; (at = c.examples.find('"', at)) != std::string::npos; ++sentences) {
      const size_t stop = c.examples.find('"', at + 1);
      CHECK(unknown(c.examples.substr(at + 1, stop - at - 1)) == 0);
      at = stop + 1;
    }
  CHECK(sentences == 2);
}

}  // namespace tern::apps::translate::test_own_pairs
