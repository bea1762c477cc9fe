// ntm train --dry-run: the predicted peak memory against the allocator's peak in real steps.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "tern/apps/ntm/program.h"
#include "tern/tests/support/memory_checks.h"

namespace tern::apps::ntm::test_dry_run {
namespace {

namespace fs = std::filesystem;

// Runs all batches of one epoch.
void check_run(const NtmConfig& c) {
  const int64_t said = NtmProgram(c).summary().cost.peak();
  test::check_peak(said, [&] {
    NtmTraining training(c, {.terminal = false});
    while (!training.loop.epoch_trained()) training.loop.step();
  });
}

}  // namespace

TEST_CASE("ntm dry run: the machine and the baseline take the predicted memory") {
  NtmConfig c;
  c.batch = 32;
  c.sequences = c.every = 6 * c.batch;
  check_run(c);
  c.optimizer = "rmsprop";
  c.controller = "ff";
  c.clip = 10;
  check_run(c);
  c.task = "ngrams";  // all sequences have the same length
  c.baseline = true;
  c.layers = 3;
  c.hidden = 128;
  check_run(c);
}

TEST_CASE("ntm dry run: it writes nothing") {
  const fs::path before = fs::current_path();
  const fs::path folder = fs::temp_directory_path() / fmt::format("tern_ntm_dry_{}", getpid());
  fs::create_directories(folder);
  fs::current_path(folder);
  NtmFlags o;
  std::vector<const char*> words = {"ntm", "train", "--dry-run", "--task", "recall"};
  char** const argv = const_cast<char**>(words.data());
  CHECK(apps::parse(ntm_program(o, 5, argv), 5, argv) != nullptr);
  CHECK(train_ntm(o) == 0);
  CHECK(fs::is_empty(folder));
  fs::current_path(before);
  fs::remove_all(folder);
}

}  // namespace tern::apps::ntm::test_dry_run
