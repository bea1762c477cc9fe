// A run that is killed, loses power or finds the disk full at each of its file operations in turn:
// resumed or started again, it ends as an undisturbed run.
#include <algorithm>
#include <set>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/tests/faults/process.h"
#include "tern/tests/train/event_reader.h"
#include "tern/train/checkpoint.h"

namespace tern::test {
namespace {

// Two epochs of one step each. The second epoch removes what --keep kept of the first.
const std::string kTrain = PROGRAM_NTM
    " train --task copy --baseline --layers 1 --hidden 2 --sequences 2 --every 1 --batch 1 --ema 0"
    " --keep 1";
const std::string kResume = PROGRAM_NTM " train";

std::string train_into(const Shell& shell, const std::string& folder,
                       const std::string& flags = "") {
  return fmt::format("{}{} --out '{}'", kTrain, flags, shell / folder);
}

std::vector<std::string> operations(const Shell& shell, const std::string& flags = "") {
  std::vector<std::string> kinds;
  for (const Operation& o : operations(shell, "counted", train_into(shell, "counted", flags)))
    kinds.push_back(o.kind);
  return kinds;
}

// Follows the messages of the program: resumes, or starts again.
Ended go_on(const Shell& shell, const std::string& folder, const std::string& flags = "") {
  const std::string quick = with_fault(shell, folder, "none", 0);  // without waiting for the disk
  const bool had_checkpoint = fs::exists(shell / folder + "/checkpoint.safetensors");
  const std::string resume = fmt::format("{}{} --resume '{}'", quick, kResume, shell / folder);
  const Ended refused = shell.run(resume);
  if (refused.code != 2) {
    const bool anew =
        contains(refused.err, "ended here before its first checkpoint; it starts again");
    CHECK(anew != had_checkpoint);
    return refused;
  }
  CHECK_FALSE(had_checkpoint);
  CHECK(refused.code == 2);
  CHECK((contains(refused.err, "start it again with --out") ||
         contains(refused.err, "no such folder")));
  return shell.run(quick + train_into(shell, folder, flags));
}

bool is_event_file(const std::string& name) { return name.starts_with("events.out"); }

std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); !is_event_file(name))
      names.insert(name);
  return names;
}

// The events that TensorBoard shows, by tag and step.
std::multiset<std::pair<std::string, int64_t>> shown_in(const std::string& folder) {
  std::multiset<std::pair<std::string, int64_t>> shown;
  for (const Event& e : shown_events(folder)) shown.emplace(e.tag, e.step);
  return shown;
}

// Checks the final weights, and that no other files are left.
void check_whole(const Shell& shell, const std::string& folder) {
  for (const char* file : {"model.safetensors", "best.safetensors", "config.json"})
    CHECK(read_file(shell / folder + "/" + file) == read_file(shell / "counted/" + file));
  CHECK(files_in(shell / folder) == files_in(shell / "counted"));
  auto log_lines = [&](const std::string& of) {
    const std::string log = read_file(shell / of + "/log.jsonl");
    return std::count(log.begin(), log.end(), '\n');
  };
  CHECK(log_lines(folder) == log_lines("counted"));
}

}  // namespace

TEST_CASE("crash points: a run killed at any file operation ends like an undisturbed one") {
  const Shell shell;
  const std::vector<std::string> all = operations(shell);
  for (const char* name : {"mkdir", "open", "write", "fsync", "rename", "unlink", "ftruncate"})
    CHECK(std::find(all.begin(), all.end(), name) != all.end());
  for (size_t at = 1; at <= all.size(); ++at) {
    CAPTURE(at);
    CAPTURE(all[at - 1]);
    const Ended killed = shell.run(with_fault(shell, "run", "kill", at) + train_into(shell, "run"));
    REQUIRE(killed.code == 137);
    const Ended again = go_on(shell, "run");
    CAPTURE(again.err);
    REQUIRE(again.code == 0);
    check_whole(shell, "run");
    fs::remove_all(shell / "run");
  }
}

// Files keep their names. Bytes that fsync did not write to the disk are lost: the file is shorter,
// or holds zeros in their place.
TEST_CASE("crash points: a run that loses power at any operation ends like an undisturbed one") {
  const Shell shell;
  const std::string board = " --tensorboard";
  const std::vector<std::string> all = operations(shell, board);
  const auto shown = shown_in(shell / "counted");
  REQUIRE(!shown.empty());
  for (const char* how : {"power", "zeros"})
    for (size_t at = 1; at <= all.size(); ++at) {
      CAPTURE(how);
      CAPTURE(at);
      CAPTURE(all[at - 1]);
      const Ended lost =
          shell.run(with_fault(shell, "run", how, at) + train_into(shell, "run", board));
      REQUIRE(lost.code == 137);
      const bool had_checkpoint = fs::exists(shell / "run/checkpoint.safetensors");
      const Ended again = go_on(shell, "run", board);
      CAPTURE(again.err);
      REQUIRE(again.code == 0);
      check_whole(shell, "run");
      if (had_checkpoint) CHECK(shown_in(shell / "run") == shown);  // else no --tensorboard
      fs::remove_all(shell / "run");
    }
}

TEST_CASE(
    "crash points: a disk that is full from any operation on is reported, and loses nothing") {
  const Shell shell;
  const std::vector<std::string> all = operations(shell);
  for (size_t at = 1; at <= all.size(); ++at) {
    CAPTURE(at);
    CAPTURE(all[at - 1]);
    const Ended full = shell.run(with_fault(shell, "run", "full", at) + train_into(shell, "run"));
    CAPTURE(full.err);
    // At the very end, only fsync and unlink may fail without an error.
    const bool harmless = std::all_of(all.begin() + static_cast<std::ptrdiff_t>(at) - 1, all.end(),
                                      [](const auto& o) { return o == "fsync" || o == "unlink"; });
    REQUIRE(full.code == (harmless ? 0 : 1));
    if (!harmless) {
      CHECK(contains(full.err, shell / "run"));
      CHECK(contains(full.err, "No space left on device"));
      const std::string checkpoint = shell / "run/checkpoint.safetensors";
      if (fs::exists(checkpoint)) CHECK_NOTHROW(training::load_checkpoint(checkpoint));
      const Ended again = go_on(shell, "run");
      CAPTURE(again.err);
      REQUIRE(again.code == 0);
    }
    check_whole(shell, "run");
    fs::remove_all(shell / "run");
  }
}

TEST_CASE("crash points: a disk that is full under --tensorboard also gives exit code 1") {
  const Shell shell;
  for (size_t at = 1; at <= 3; ++at) {  // file made, begun, and later
    CAPTURE(at);
    const Ended full = shell.run(with_fault(shell, "run/events", "full", at) +
                                 train_into(shell, "run") + " --tensorboard");
    CAPTURE(full.err);
    CHECK(full.code == 1);
    CHECK(contains(full.err, "run/events"));
    CHECK(contains(full.err, "No space left on device"));
    fs::remove_all(shell / "run");
  }
}

}  // namespace tern::test
