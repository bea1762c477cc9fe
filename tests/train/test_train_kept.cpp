// The separate files of several epochs (LoopOptions::keep), and runs resumed from one of them.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_kept {
namespace {

// Epoch 2 is the best of the first four, epoch 5 the best of all.
const std::vector<double> kRanks = {3, 2, 4, 4, 1, 5};

struct Keeper : Training {
  explicit Keeper(const std::string& folder, int64_t keep = 2, int64_t epochs = 6,
                  bool only_best = false)
      : Training({.epochs = epochs,
                  .folder = folder,
                  .best = {"rank"},
                  .only_best = only_best,
                  .keep = keep}) {
    metric = [this] { return kRanks.at(static_cast<size_t>(loop.epoch() - 1)); };
  }
};

/// The names of the files of single epochs: "checkpoint-5", "model-2".
std::set<std::string> kept(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (name.find('-') != std::string::npos) names.insert(name);
  }
  return names;
}

/// Compares weights, best weights, kept weights and the number of logged epochs of two runs.
void check_same_files(const std::string& a, const std::string& b) {
  CHECK(kept(a) == kept(b));
  for (const char* name : {"model", "best", "model-2", "model-5", "model-6"}) {
    CAPTURE(name);
    const std::string file = std::string("/") + name + ".safetensors";
    REQUIRE(std::filesystem::exists(a + file) == std::filesystem::exists(b + file));
    if (std::filesystem::exists(a + file)) CHECK(read_file(a + file) == read_file(b + file));
  }
  CHECK(read_log(a + "/log.jsonl").epochs.size() == read_log(b + "/log.jsonl").epochs.size());
}

TEST_CASE("keep: the last epochs keep their files, and the best up to each its weights") {
  TempDir dir;
  Keeper t(dir / "run");
  std::vector<std::set<std::string>> after;
  t.evaluated = [&] {  // the files of the earlier epochs
    after.push_back(kept(dir / "run"));
    const int64_t closed = t.loop.epoch() - 1;
    if (closed > 0)
      CHECK(read_file(t.loop.folder().weights(closed)) == read_file(t.loop.folder().weights()));
  };
  REQUIRE(t.loop.run() == Outcome::finished);
  after.push_back(kept(dir / "run"));
  using Names = std::set<std::string>;
  CHECK(after[0] == Names{});
  CHECK(after[1] == Names{"checkpoint-1", "model-1"});
  CHECK(after[2] == Names{"checkpoint-1", "checkpoint-2", "model-1", "model-2"});
  CHECK(after[3] == Names{"checkpoint-2", "checkpoint-3", "model-2", "model-3"});
  CHECK(after[4] == Names{"checkpoint-3", "checkpoint-4", "model-2", "model-3", "model-4"});
  CHECK(after[5] == Names{"checkpoint-4", "checkpoint-5", "model-2", "model-4", "model-5"});
  CHECK(after[6] == Names{"checkpoint-5", "checkpoint-6", "model-5", "model-6"});
}

TEST_CASE("keep: files with such names that the run did not write stay") {
  TempDir dir;
  const RunFolder folder{dir / "run"};
  folder.make();
  for (const int64_t epoch : {int64_t{0}, int64_t{9}})
    write_file(folder.checkpoint(epoch), "another's");
  Keeper t(folder.path, 1);
  REQUIRE(t.loop.run() == Outcome::finished);
  CHECK(read_file(folder.checkpoint(0)) == "another's");
  CHECK(read_file(folder.checkpoint(9)) == "another's");
  CHECK(std::filesystem::exists(folder.checkpoint(6)));
  CHECK_FALSE(std::filesystem::exists(folder.checkpoint(5)));
  // The run's own files stay, too, if it continues without `keep`.
  Keeper without(folder.path, 0);
  REQUIRE(without.loop.resume());
  REQUIRE(without.loop.run() == Outcome::finished);
  CHECK(std::filesystem::exists(folder.checkpoint(6)));
}

TEST_CASE("keep: a run resumed from any kept epoch ends with the files of an uninterrupted one") {
  for (const bool only_best : {false, true}) {
    TempDir dir;
    Keeper whole(dir / "whole", 2, 6, only_best);
    REQUIRE(whole.loop.run() == Outcome::finished);
    for (int64_t length = 2; length <= 6; ++length)
      for (int64_t epoch = length - 1; epoch <= length; ++epoch) {
        CAPTURE(length);
        CAPTURE(epoch);
        const std::string folder = dir / fmt::format("{}-{}", length, epoch);
        Keeper first(folder, 2, length, only_best);
        REQUIRE(first.loop.run() == Outcome::finished);
        Keeper second(folder, 2, 6, only_best);
        second.loop.resume(epoch);
        CHECK(std::ssize(second.loop.history()) == epoch);
        CHECK(second.loop.epoch_trained() == false);
        REQUIRE(second.loop.run() == Outcome::finished);
        check_same(whole.learner.weights(), second.learner.weights());
        check_same_files(whole.loop.folder().path, folder);
      }
  }
}

TEST_CASE("keep: resuming from an epoch restores its weights and files before training") {
  TempDir dir;
  Keeper four(dir / "four", 2, 4), five(dir / "run", 2, 5);
  REQUIRE(four.loop.run() == Outcome::finished);
  REQUIRE(five.loop.run() == Outcome::finished);  // with another best epoch
  CHECK(read_file(five.loop.folder().best_weights()) !=
        read_file(four.loop.folder().best_weights()));
  Keeper back(dir / "run", 2, 6);
  back.loop.resume(4);
  back.before_batch = [&](int64_t number) {
    if (number == 1) std::raise(SIGINT);
  };
  REQUIRE(back.loop.run() == Outcome::interrupted);
  for (const char* name : {"best", "model", "model-2", "model-4"}) {
    CAPTURE(name);
    const std::string file = std::string(name) + ".safetensors";
    CHECK(read_file(back.loop.folder().file(file)) == read_file(four.loop.folder().file(file)));
  }
  CHECK(kept(dir / "run") == std::set<std::string>{"checkpoint-4", "model-2", "model-4"});
  CHECK(read_log(back.loop.folder().log()).epochs.size() == 4);
  // The stopped run can be resumed.
  Keeper again(dir / "run", 2, 6), whole(dir / "whole");
  REQUIRE(again.loop.resume());
  REQUIRE(again.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.run() == Outcome::finished);
  check_same(whole.learner.weights(), again.learner.weights());
  check_same_files(dir / "whole", dir / "run");
}

TEST_CASE("keep: a kept checkpoint replaces a damaged latest one; errors of keep and resume()") {
  TempDir dir;
  Keeper t(dir / "run", 2, 4), whole(dir / "whole");
  REQUIRE(t.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.run() == Outcome::finished);
  write_file(t.loop.folder().checkpoint(), "damaged");
  Keeper refused(dir / "run"), second(dir / "run");
  CHECK_THROWS_AS(refused.loop.resume(), IoError);
  CHECK_THROWS_WITH_AS(refused.loop.resume(2), doctest::Contains("no checkpoint of epoch 2"),
                       IoError);
  second.loop.resume(4);
  REQUIRE(second.loop.run() == Outcome::finished);
  check_same(whole.learner.weights(), second.learner.weights());

  std::filesystem::remove(second.loop.folder().weights(5));
  Keeper lost(dir / "run");
  CHECK_THROWS_WITH_AS(lost.loop.resume(6), doctest::Contains("the weights of epoch 5"), IoError);
  CHECK_THROWS_WITH_AS(Training({.keep = 1}), doctest::Contains("set LoopOptions::folder"), Error);
  CHECK_THROWS_WITH_AS(Training({.folder = "x", .keep = -1}), doctest::Contains("negative"), Error);
}

TEST_CASE("keep: a killed run ends with the kept files of an uninterrupted run") {
  TempDir dir;
  Keeper whole(dir / "whole");
  REQUIRE(whole.loop.run() == Outcome::finished);
  for (int64_t epoch = 1; epoch <= 6; ++epoch) {
    CAPTURE(epoch);
    const std::string folder = dir / std::to_string(epoch);
    {
      Keeper t(folder);
      t.evaluated = [&] {  // killed before this epoch's weights are written
        if (t.loop.epoch() == epoch) throw Killed();
      };
      CHECK_THROWS_AS(t.loop.run(), Killed);
    }
    Keeper again(folder);
    REQUIRE(again.loop.resume());
    REQUIRE(again.loop.run() == Outcome::finished);
    check_same_files(whole.loop.folder().path, folder);
  }
}

}  // namespace
}  // namespace tern::test::test_train_kept
