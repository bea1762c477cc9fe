// A run's folder given to a program that did not make it: the error names the right program.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_other_programs {
namespace {

namespace fs = std::filesystem;

/// A training program with flags for a run of one second.
struct Maker {
  std::string name;
  Words train;              // the command for training
  Words flags;              // flags of the run
  std::vector<Words> uses;  // commands that use its folder, called FOLDER
};

const std::vector<Maker> kMakers = {
    {"train_cifar",
     {},
     {"--limit", "8", "--batch", "8", "--epochs", "1"},
     {{"--predict", "a.png", "--weights", "FOLDER"},
      {"--predict", "a.png", "--weights", "FOLDER/model.safetensors"},
      {"--eval", "FOLDER/model.safetensors", "--data", "."},
      {"--init", "FOLDER/model.safetensors"}}},
    {"lm",
     {"train"},
     {"--text", "text", "--vocab", "257", "--context", "8", "--dim", "8", "--heads", "1",
      "--layers", "1", "--batch", "2", "--epochs", "1"},
     {{"generate", "--model", "FOLDER"},
      {"eval", "--model", "FOLDER", "--text", "text"},
      {"fill", "--model", "FOLDER", "a [MASK]"},
      {"train", "--text", "text", "--from", "FOLDER"}}},
    {"translate",
     {"train"},
     {"--pairs", "pairs", "--dim", "8", "--heads", "1", "--ffn", "8", "--layers", "1", "--epochs",
      "1", "--hold-out", "0", "--tokens", "words", "--min-freq", "1"},
     {{"run", "--model", "FOLDER"},
      {"plot", "--model", "FOLDER", "a cat"},
      {"eval", "--model", "FOLDER", "--source", "text", "--target", "text"},
      {"shortlist", "--model", "FOLDER", "--source", "text", "--target", "text"}}},
    {"ntm",
     {"train"},
     {"--task", "copy", "--baseline", "--layers", "1", "--hidden", "2", "--sequences", "1",
      "--batch", "1"},
     {{"eval", "--model", "FOLDER"}}},
};

Words in_folder(Words words, const std::string& folder) {
  for (std::string& word : words)
    if (word.starts_with("FOLDER")) word.replace(0, 6, folder);
  return words;
}

std::set<std::string> files(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.insert(entry.path().string());
  return names;
}

TEST_CASE("programs: a run of another program is refused with that program's name and command") {
  const TempDir dir;
  std::string text, pairs;
  for (int i = 0; i < 20; ++i) {
    text += "thecatsatonthemat\n";
    pairs += "a cat\tun chat\na dog\tun chien\n";
  }
  write_file(dir / "text", text);
  write_file(dir / "pairs", pairs);
  const RunOptions there{.folder = dir.path()};
  for (const Maker& maker : kMakers) {
    const std::string run = "a " + maker.name;  // a shell needs quotes around it
    const Ran made = run_program(
        maker.name, with(with(maker.train, maker.flags), {"--threads", "1", "--out", run}), there);
    REQUIRE_MESSAGE(made.code == 0, made.err);
  }
  const std::set<std::string> before = files(dir.path());
  for (const Maker& maker : kMakers) {
    const std::string run = "a " + maker.name;
    const std::string started = TERN_BINARY_DIR "/apps/" + maker.name;
    const std::string command = started + (maker.train.empty() ? "" : " train");
    for (const Maker& other : kMakers) {
      CAPTURE(maker.name + " to " + other.name);
      const Ran resumed = run_program(other.name, with(other.train, {"--resume", run}), there);
      if (&other == &maker) {
        CHECK_MESSAGE(resumed.code == 0, resumed.err);  // the suggested command
        continue;
      }
      CHECK(resumed.code == 2);
      CHECK(resumed.err == other.name + ": --resume " + run + ": this is a run of " + maker.name +
                               ", not of " + other.name + "; " + command + " --resume '" + run +
                               "' continues it\n");
      for (const Words& use : other.uses) {
        const Ran used = run_program(other.name, in_folder(use, run), there);
        CAPTURE(used.err);
        CHECK(used.code == 2);
        CHECK(contains(used.err, ": this is a run of " + maker.name + ", not of " + other.name +
                                     "; " + started + " --help says how to use it\n"));
      }
    }
  }
  CHECK(files(dir.path()) == before);
  // If the record names no program, each program judges the folder by its files.
  for (const char* record : {"", "{}", "not JSON"}) {
    write_file(dir / "a lm/run.json", record);
    const Ran used = run_program("ntm", {"eval", "--model", "a lm"}, there);
    CHECK(used.code == 2);
    CHECK_FALSE(contains(used.err, "this is a run of"));
    CHECK(run_program("lm", {"generate", "--model", "a lm", "--max-tokens", "1"}, there).code == 0);
  }
}

}  // namespace
}  // namespace tern::test::test_other_programs
