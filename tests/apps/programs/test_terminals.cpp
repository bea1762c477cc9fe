// Output on terminals of any width, in pipes and on standard output, and messages about runs that
// are refused, resumed or in their first epoch.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <regex>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_terminals {
namespace {

namespace fs = std::filesystem;

struct Asked {
  std::string program;
  Words arguments;
};

/// A text, pairs, and arguments for trainings of one second on them.
struct Desk {
  TempDir dir;
  Words lm = {"train", "--text",  "text", "--vocab",   "257", "--context",
              "8",     "--dim",   "8",    "--heads",   "1",   "--layers",
              "1",     "--batch", "2",    "--threads", "1"};
  Words translate = {"train", "--pairs",    "pairs", "--dim",      "8",    "--heads",
                     "1",     "--ffn",      "8",     "--layers",   "1",    "--epochs",
                     "1",     "--hold-out", "0",     "--min-freq", "1",    "--threads",
                     "1",     "--tokens",   "words", "--out",      "model"};
  Desk() {
    std::string text, pairs;
    for (int i = 0; i < 20; ++i) {
      text += "thecatsatonthemat\n";  // no words, so no samples, whose bytes are arbitrary
      pairs += "a cat\tun chat\na dog\tun chien\n";
    }
    write_file(dir / "text", text);
    write_file(dir / "pairs", pairs);
  }
  Ran run(const std::string& program, const Words& arguments, RunOptions o = {}) const {
    o.folder = dir.path();
    return run_program(program, arguments, o);
  }
};

bool moves_cursor(const std::string& text) {
  return contains(text, "\r") || contains(text, "\x1b");
}

TEST_CASE("programs: the output of a training fits the terminal") {
  const Desk desk;
  for (int columns : {40, 60, 80}) {
    const Ran ran = desk.run("lm", with(desk.lm, {"--epochs", "2"}), {.columns = columns});
    CAPTURE(columns);
    CHECK(ran.code == 0);
    bool ended = false;
    for (const std::string& row : rows(ran.out)) {
      CAPTURE(row);
      ended = ended || row.starts_with("epoch 2/2  train loss");
      // A path has no place for a line break.
      const std::string text = row.substr(row.find_first_not_of(' '));
      CHECK((characters(row) <= columns || !contains(text, " ")));
    }
    CHECK(ended);
    if (columns == 40) CHECK(contains(ran.out, "\n         "));
  }
}

TEST_CASE(
    "programs: the remaining time is known from the second epoch on, also if epochs are short") {
  const Desk desk;  // epochs of half a second
  const Ran ran = desk.run(
      "ntm", {"train", "--sequences", "300", "--every", "100", "--threads", "1", "--out", "run"},
      {.columns = 200});
  CHECK(ran.code == 0);
  for (const std::string& row : rows(ran.out))
    if (row.starts_with("epoch 2/3 [") || row.starts_with("epoch 3/3 ["))
      CHECK_MESSAGE(contains(row, ", all 0:"), row);
}

TEST_CASE("programs: a dumb terminal and a pipe get plain lines") {
  const Desk desk;
  for (const char* term : {"dumb", ""}) {
    const Ran ran = desk.run("lm", with(desk.lm, {"--epochs", "1"}),
                             {.columns = 60, .environment = {{"TERM", term}}});
    CHECK(ran.code == 0);
    CHECK_FALSE(moves_cursor(ran.out));
  }
  const Ran piped = desk.run("lm", with(desk.lm, {"--epochs", "1"}));
  CHECK(piped.code == 0);
  CHECK_FALSE(moves_cursor(piped.out + piped.err));
  // Whole lines, for programs that read the log.
  CHECK(std::regex_search(piped.err, std::regex("\nepoch 1/1  .*tokens/s  lr .*\n")));
}

TEST_CASE("programs: a training writes only its results to standard output") {
  const Desk desk;
  struct Result {
    std::string program;
    Words arguments;
    const char* all;  // a pattern of the whole output
  };
  for (const Result& r : std::vector<Result>{
           {"lm", with(desk.lm, {"--epochs", "1", "--out", "gpt"}),
            "best epoch 1: valid ppl [0-9.]+, [0-9.]+ bits/byte, gpt/model.safetensors\n"},
           {"lm", with(desk.lm, {"--epochs", "1", "--hold-out", "0", "--out", "all"}),
            "weights of epoch 1: all/model.safetensors\n"},
           {"translate", desk.translate, "weights of epoch 1: model/model.safetensors\n"},
           {"ntm",
            {"train", "--hidden", "6", "--sequences", "4", "--every", "4", "--threads", "1"},
            "best after 4 sequences: [0-9.]+ bits per sequence, [0-9.]+ wrong bits\n\n"
            " vectors [^\n]*\n( +[0-9]+ [^\n]*%\n)+\n?"}}) {
    CAPTURE(r.program);
    const Ran ran = desk.run(r.program, r.arguments);
    CHECK(ran.code == 0);
    CHECK_MESSAGE(std::regex_match(ran.out, std::regex(r.all)), ran.out);
    for (const char* log : {"\nrecipe  ", "\nfolder  ", "\nreport", "\nto "})
      CHECK_MESSAGE(std::regex_search("\n" + ran.err, std::regex(log)), ran.err);
    CHECK(contains(ran.err, r.program == "ntm" ? "4 sequences" : "epoch 1/1"));
  }
  const Ran cifar = desk.run("train_cifar", {"--limit", "8", "--batch", "8", "--epochs", "1",
                                             "--out", "cifar", "--threads", "1"});
  CHECK(cifar.code == 0);
  CHECK(std::regex_match(cifar.out, std::regex("(Top-[1-5] accuracy: [01]\\.[0-9]{4}\n){5}")));
  CHECK(contains(cifar.err, "\nepoch 1/1  train loss"));
  CHECK(contains(cifar.err, "warm-up cut from 100 to 0 steps, because the run has 1\n"));
  const Ran tested = desk.run(
      "train_cifar", {"--eval", "cifar/model.safetensors", "--data", "cifar/data", "--limit", "8"});
  CHECK(tested.out == cifar.out);
  CHECK(contains(tested.err, "on 8 test images"));

  REQUIRE(desk.run("lm", with(desk.lm, {"--epochs", "1", "--out", "lm"})).code == 0);
  const Ran read = desk.run("lm", {"eval", "--model", "lm", "--text", "text"});
  CHECK(
      std::regex_match(read.out, std::regex("[0-9,]+ tokens of [^\n]*\nloss of a token [^\n]*\n")));
  CHECK(contains(read.err, "gpt"));
}

TEST_CASE("programs: --dry-run prints the time of all steps, and writes nothing") {
  const Desk desk;
  for (const auto& line :
       std::map<std::string, Words>{{"lm", with(desk.lm, {"--epochs", "3"})},
                                    {"translate", desk.translate},
                                    {"ntm", {"train", "--hidden", "6", "--sequences", "9"}},
                                    {"train_cifar", {"--limit", "8", "--batch", "4"}}}) {
    const Ran ran = desk.run(line.first, with(line.second, {"--dry-run"}));
    CAPTURE(line.first);
    CHECK(ran.code == 0);
    std::smatch takes, steps;
    REQUIRE(std::regex_search(ran.out, takes,
                              std::regex("\ntakes about [^\n]+ for ([0-9,]+) steps? of [0-9.]+ "
                                         "m?s, without evaluations\n$")));
    REQUIRE(std::regex_search(ran.out, steps, std::regex("\n +([0-9,]+) steps; below")));
    CHECK(takes[1] == steps[1]);
    CHECK(std::distance(fs::directory_iterator(desk.dir.path()), {}) == 2);  // the text and pairs
  }
}

// Writes 28 x 28 pictures and their labels as MNIST stores them.
void write_digits(const std::string& folder, const std::string& part, char count) {
  std::string pictures = {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28};
  std::string labels = {0, 0, 8, 1, 0, 0, 0, count};
  for (char i = 0; i < count; ++i) {
    pictures += std::string(28 * 28, static_cast<char>(i * 5));
    labels += static_cast<char>(i % 10);
  }
  write_file(folder + "/" + part + "-images-idx3-ubyte", pictures);
  write_file(folder + "/" + part + "-labels-idx1-ubyte", labels);
}

TEST_CASE(
    "programs: if the data chose the length, a training prints its duration before it begins") {
  const Desk desk;
  fs::create_directory(desk.dir / "digits");
  write_digits(desk.dir / "digits", "train", 20);
  write_digits(desk.dir / "digits", "t10k", 10);
  const Words own = {"--data", "digits", "--epochs", "1", "--threads", "1"};
  const Ran ran = desk.run("train_cifar", with(own, {"--out", "run"}));
  CHECK(ran.code == 0);
  CHECK_MESSAGE(
      std::regex_search(ran.err, std::regex("\nthis training takes about [^\n]* for [0-9]+ steps? "
                                            "of [^\n]*; --epochs sets another length\nmodel ")),
      ran.err);
  // A length that the user chose is not announced.
  const Ran drawn = desk.run("train_cifar", {"--limit", "8", "--batch", "8", "--epochs", "1"});
  CHECK_FALSE(contains(drawn.err, "this training takes"));
}

TEST_CASE("programs: a resumed run prints where it resumes") {
  const Desk desk;
  REQUIRE(desk.run("lm", with(desk.lm, {"--epochs", "1", "--out", "lm", "--schedule", "constant"}))
              .code == 0);
  const Ran more = desk.run("lm", {"train", "--resume", "lm", "--epochs", "2"});
  CHECK(more.code == 0);
  CHECK(std::regex_search(
      more.err, std::regex("\nresumes in epoch 2/2, batch 1 of ([0-9]+), after [0-9]+ steps\n")));
  const Ran done = desk.run("lm", {"train", "--resume", "lm"});
  CHECK(std::regex_search(done.err, std::regex("\nall 2 epochs are done, after [0-9]+ steps\n")));
}

TEST_CASE("programs: with a damaged checkpoint the weights of the run are still usable") {
  const Desk desk;
  REQUIRE(desk.run("lm", with(desk.lm, {"--epochs", "1", "--out", "lm"})).code == 0);
  const std::string path = desk.dir / "lm/checkpoint.safetensors", whole = read_file(path);
  for (const std::string& damaged : {std::string(), whole.substr(0, 2000)}) {
    write_file(path, damaged);
    const Ran ran = desk.run("lm", {"train", "--resume", "lm"});
    CHECK(ran.code == 2);
    CHECK_MESSAGE(
        (contains(ran.err, "lm/checkpoint.safetensors: ") && contains(ran.err, "(at byte 0)")),
        ran.err);
    CHECK(contains(ran.err,
                   "; the run cannot be resumed without it: the weights of its epochs are left, "
                   "see lm/model.safetensors\n"));
  }
  fs::remove(desk.dir / "lm/model.safetensors");
  CHECK(contains(desk.run("lm", {"train", "--resume", "lm"}).err,
                 "it: start it again in another folder"));
}

TEST_CASE("programs: an error about a run in its first epoch says so, and names no missing file") {
  const Desk desk;
  fs::create_directory(desk.dir / "young");
  write_file(desk.dir / "young/checkpoint.safetensors", "");
  const std::vector<Asked> kAsked = {
      {"lm", {"generate", "--model", "young"}},
      {"lm", {"eval", "--model", "young", "--text", "text"}},
      {"lm", {"fill", "--model", "young", "a [MASK]"}},
      {"translate", {"run", "--model", "young"}},
      {"translate", {"plot", "--model", "young", "a cat"}},
      {"translate", {"eval", "--model", "young", "--source", "text", "--target", "text"}},
      {"ntm", {"eval", "--model", "young"}},
      {"train_cifar", {"--eval", "young/best.safetensors", "--data", "young"}}};
  for (const Asked& asked : kAsked) {
    const Ran ran = desk.run(asked.program, asked.arguments);
    CAPTURE(asked.program);
    CHECK(ran.code == 2);
    CHECK_MESSAGE(contains(ran.err, "young: this run has no weights yet"), ran.err);
    CHECK(contains(ran.err, "--resume young"));
  }
}

TEST_CASE("programs: a refused run leaves no folder") {
  const Desk desk;
  const std::vector<Asked> kRefused = {
      {"lm", {"train", "--text", "missing"}},
      {"lm", with(desk.lm, {"--warmup", "1000", "--schedule", "cosine"})},
      {"lm", with(desk.lm, {"--from", "missing"})},
      {"lm", with(desk.lm, {"--hold-out", "0", "--context", "5000"})},
      {"translate", with(desk.translate, {"--warmup", "1000", "--schedule", "cosine"})},
      {"translate", {"train", "--pairs", "text"}},
      {"ntm", {"train", "--sequences", "10", "--warmup", "1000", "--schedule", "cosine"}},
      {"ntm", {"train", "--optimizer", "muon"}},
      {"train_cifar", {"--data", "missing"}},
      {"train_cifar", {"--init", "text"}},
      {"train_cifar", {"--warmup", "9999", "--schedule", "cosine", "--limit", "8"}}};
  for (const Asked& asked : kRefused) {
    const Ran ran = desk.run(asked.program, asked.arguments);
    CAPTURE(asked.program);
    CAPTURE(asked.arguments[1]);
    CHECK(ran.code == 2);
    CHECK(ran.err != "");
    CHECK(std::distance(fs::directory_iterator(desk.dir.path()), {}) == 2);  // the text and pairs
  }
  const Ran inside = desk.run("ntm", {"train", "--out", "text/inside"});  // a folder inside a file
  CHECK(inside.code == 1);
  CHECK(contains(inside.err, "text/inside"));
}

TEST_CASE("programs: a preset's warm-up is cut to a short run, and a message says so") {
  const Desk desk;
  const Words translate = {
      "train", "--pairs",    "pairs", "--dim",     "8", "--heads",  "1", "--ffn", "8", "--layers",
      "1",     "--hold-out", "0",     "--threads", "1", "--epochs", "1", "--bpe", "50"};
  const Ran best = desk.run("translate", with(translate, {"--preset", "multi30k-best"}));
  CHECK_MESSAGE(best.code == 0, best.err);
  CHECK(contains(best.err, "warm-up cut from 300 to 0 steps, because the run has 1"));
  const Ran base = desk.run("translate", with(translate, {"--preset", "base"}));
  CHECK_MESSAGE(base.code == 0, base.err);
  CHECK(
      contains(base.err, "the rate only rises: noam's warm-up has 4000 steps, but the run has 1"));
  const Ran lm = desk.run("lm", with(desk.lm, {"--epochs", "1"}));
  CHECK(contains(lm.err, "warm-up cut from 100 to"));
}

TEST_CASE("programs: translate run tells a person what to type, and uses colours where wanted") {
  const Desk desk;
  REQUIRE(desk.run("translate", desk.translate).code == 0);
  const Words run = {"run", "--model", "model"};
  const Ran typed = desk.run("translate", run, {.columns = 60, .typed = "a cat\n\x04"});
  CHECK(typed.code == 0);
  CHECK(contains(typed.out, "type one sentence per line; Ctrl-D ends"));
  const Ran piped =
      run_words({"sh", "-c", "echo a cat | " TERN_BINARY_DIR "/apps/translate run --model model"},
                {.folder = desk.dir.path()});
  CHECK(piped.code == 0);
  CHECK_FALSE(contains(piped.out + piped.err, "type one sentence"));

  const Words plot = {"plot", "--model", "model", "a cat"};
  auto shown = [&](int columns, std::map<std::string, std::string> environment) {
    return desk.run("translate", plot, {.columns = columns, .environment = std::move(environment)})
        .out;
  };
  CHECK(contains(shown(60, {}), "\x1b[48;5;"));
  CHECK(contains(shown(60, {{"NO_COLOR", ""}}), "\x1b[48;5;"));
  for (const auto& [columns, name, value] :
       {std::tuple(60, "NO_COLOR", "1"), {60, "TERM", "dumb"}, {0, "LANG", "C.UTF-8"}}) {
    const std::string out = shown(columns, {{name, value}});
    CHECK_FALSE(contains(out, "\x1b"));
    CHECK(contains(out, "weight to  [  ] .016  [░░] .14"));
  }
}

TEST_CASE("programs: a translation in bf16; two precisions at once are refused") {
  const Desk desk;
  REQUIRE(desk.run("translate", desk.translate).code == 0);
  const Words rounded = {"run", "--model", "model", "--precision", "bf16"};
  auto run = [&](const Words& more) {
    return desk.run("translate", with(rounded, more), {.columns = 80, .typed = "\x04"});
  };
  CHECK(run({}).code == 0);
  CHECK(run({"--attention", "a.html"}).code == 0);
  const Ran both = run({"--int8"});
  CHECK(both.code == 2);
  CHECK(contains(both.out, "--int8 and --precision bf16 each say"));
}

TEST_CASE("programs: an evaluation with --int8 says which of its numbers are still in f32") {
  const Desk desk;
  REQUIRE(desk.run("translate", desk.translate).code == 0);
  write_file(desk.dir / "source", "a cat\n");
  write_file(desk.dir / "target", "un chat\n");
  const Words words = {"eval", "--model", "model", "--source", "source", "--target", "target"};
  const Ran plain = desk.run("translate", words),
            rounded = desk.run("translate", with(words, {"--int8"}));
  CHECK(contains(plain.out, "loss of a token"));
  CHECK_FALSE(contains(plain.out, "f32 weights"));
  CHECK(contains(rounded.err, ", int8"));
  CHECK(contains(rounded.out, "(with f32 weights: --int8 changes only the search)"));
}

}  // namespace
}  // namespace tern::test::test_terminals
