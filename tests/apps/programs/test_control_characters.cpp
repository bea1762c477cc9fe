// Control characters in names, lines and texts: programs never send them to a terminal.
#include <doctest/doctest.h>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_control_characters {
namespace {

const std::string kEscape = "\x1b[31m", kShown = "\u241b[31m";

// Whether control sequences are left after removing those of tern's progress bar.
bool commands(std::string text) {
  for (size_t at; (at = text.find("\r\x1b[K")) != text.npos;) text.erase(at, 4);
  return contains(text, "\x1b") || contains(text, "\u009b");
}

struct Folder {
  TempDir dir;
  Ran run(const std::string& program, const Words& arguments, int columns = 0) const {
    return run_program(program, arguments,
                       {.columns = columns,
                        .folder = dir.path(),
                        .environment = {{"OMP_WAIT_POLICY", "passive"}}});
  }
};

}  // namespace

TEST_CASE("control characters: in samples of a training, in names of folders, in the report") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "the " + kEscape + "cat \u009bsat on the mat and slept\n";
  write_file(folder.dir / "text", text);
  const std::string out = "run" + kEscape;
  const Words train = {"train", "--text",  "text", "--vocab",   "257", "--context",
                       "8",     "--dim",   "8",    "--heads",   "1",   "--layers",
                       "1",     "--batch", "2",    "--threads", "1",   "--epochs",
                       "1",     "--out",   out};
  for (const int columns : {0, 80}) {
    CAPTURE(columns);
    const Ran ran = folder.run("lm", train, columns);
    CAPTURE(ran.out);
    CHECK(ran.code == 0);
    CHECK(
        contains(ran.out + ran.err, "the " + kShown + "cat \uFFFDsat"));  // the prompt of a sample
    CHECK(contains(ran.out, "run" + kShown));
    CHECK_FALSE(commands(ran.out + ran.err));
    const std::string page = read_file(folder.dir / out + "/report.html");
    CHECK(contains(page, kShown));
    CHECK_FALSE(commands(page));
    std::filesystem::remove_all(folder.dir / out);
  }
}

TEST_CASE("control characters: in errors that quote names and lines") {
  const Folder folder;
  const std::string name = "no" + kEscape;
  for (const int columns : {0, 80})
    for (const auto& [program, arguments] : std::vector<std::pair<std::string, Words>>{
             {"lm", {"eval", "--model", name, "--text", name}},
             {"lm", {"eval", "--model", ".", "--text", "text", "--" + name}},
             {"ntm", {"eval", "--model", name}},
             {"ntm", {name}},
             {"translate", {"run", "--model", name}},
             {"train_cifar", {"--data", name}},
             {"tern", {"report", name, name}}}) {
      const std::string& tried = program;  // clang 14 cannot capture a structured binding
      CAPTURE(tried);
      const Ran ran = folder.run(program, arguments, columns);
      CAPTURE(ran.out + ran.err);
      CHECK(ran.code != 0);
      CHECK(contains(ran.out + ran.err, kShown));
      CHECK_FALSE(commands(ran.out + ran.err));
    }
  // A foreign configuration: JSON can contain any character.
  REQUIRE(folder
              .run("ntm", {"train", "--task", "copy", "--baseline", "--layers", "1", "--hidden",
                           "2", "--sequences", "1", "--batch", "1", "--out", "run"})
              .code == 0);
  std::string config = read_file(folder.dir / "run/config.json");
  const size_t task = config.find("\"copy\"");
  REQUIRE(task != config.npos);
  write_file(folder.dir / "run/config.json", config.insert(task + 1, "\\u001b[31m\\u009b"));
  for (const int columns : {0, 80}) {
    const Ran ran = folder.run("ntm", {"eval", "--model", "run"}, columns);
    CAPTURE(ran.out + ran.err);
    CHECK(ran.code == 2);
    CHECK(contains(ran.out + ran.err, kShown + "\uFFFDcopy"));
    CHECK_FALSE(commands(ran.out + ran.err));
  }
}

TEST_CASE("control characters: data is unchanged in a pipe, and made visible on a terminal") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "thecatsatonthemat\n";
  write_file(folder.dir / "text", text);
  REQUIRE(folder
              .run("lm",
                   {"train", "--text",    "text",    "--vocab",  "257",      "--context", "8",
                    "--dim", "8",         "--heads", "1",        "--layers", "1",         "--batch",
                    "2",     "--threads", "1",       "--epochs", "1",        "--out",     "model"})
              .code == 0);
  const Words generate = {"generate",      "--model",      "model", "--prompt",
                          kEscape + "the", "--max-tokens", "1"};
  const Ran piped = folder.run("lm", generate);
  CHECK(piped.code == 0);
  CHECK(piped.out.starts_with(kEscape + "the"));
  const Ran shown = folder.run("lm", generate, 80);
  CHECK(shown.code == 0);
  CHECK(shown.out.starts_with(kShown + "the"));
  CHECK_FALSE(commands(shown.out));
}

TEST_CASE("control characters: in a sentence whose attention is drawn") {
  const Folder folder;
  REQUIRE(folder
              .run("translate", {"train", "--first", "40", "--epochs", "1", "--dim", "8", "--heads",
                                 "1", "--ffn", "8", "--layers", "1", "--out", "model"})
              .code == 0);
  const Words plot = {"plot", "--model", "model", "a " + kEscape + "dog \u009bx"};
  const Ran piped = folder.run("translate", plot);  // no colours
  CHECK(piped.code == 0);
  CHECK(piped.out.starts_with("a " + kShown + "dog \uFFFDx\n"));
  CHECK_FALSE(commands(piped.out + piped.err));
  const Ran shown = folder.run("translate", plot, 80);
  CHECK(shown.code == 0);
  CHECK(contains(shown.out, "a " + kShown + "dog \uFFFDx\n"));
}

}  // namespace tern::test::test_control_characters
