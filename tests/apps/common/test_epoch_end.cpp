#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "tern/apps/common/epoch_end.h"
#include "tern/apps/common/flags.h"
#include "tern/core/base/error.h"
#include "tern/train/loop.h"

namespace tern::apps {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The options that these flags say, as a program with that schedule reads them.
EpochEndOptions parse(std::vector<std::string> words, const std::string& schedule = "plateau") {
  CLI::App app("a test");
  EpochEndOptions o;
  add_epoch_end_flags(app, o);
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  parse_flags(app, static_cast<int>(argv.size()), argv.data());
  check_plateau_flags(app, schedule);
  return o;
}

TEST_CASE("epoch end: flags, and what they give to loop and schedule") {
  const EpochEndOptions o =
      parse({"--patience", "3", "--keep=2", "--plateau-patience", "0", "--plateau-factor", "0.25"});
  CHECK(o == EpochEndOptions{3, 2, 0, 0.25});
  CHECK(parse({}, "cosine") == EpochEndOptions{});
  train::LoopOptions loop;
  set_epoch_end(loop, o);
  CHECK(loop.patience == 3);
  CHECK(loop.keep == 2);
  const auto plateau = train::make_plateau(with_plateau({.name = "plateau"}, o), true);
  REQUIRE(plateau);
  CHECK(plateau->patience == 0);
  CHECK(plateau->factor == 0.25);
  CHECK(describe_epoch_end(o, "plateau") ==
        ", rate times 0.25 after 1 epoch no better, patience 3, keeps 2 epochs");
  CHECK(describe_epoch_end({}, "cosine").empty());
  for (const std::string flag : {"--plateau-patience=1", "--plateau-factor=0.5"})
    CHECK_THROWS_WITH_AS(parse({flag}, "cosine"),
                         doctest::Contains("would change nothing: --schedule is cosine"), Error);
  for (const char* wrong : {"--patience=-1", "--keep=1.5", "--plateau-factor=0",
                            "--plateau-factor=1", "--plateau-patience=x"})
    CHECK_THROWS_AS(parse({wrong}), Error);
}

TEST_CASE("epoch end: what a file may not say, and what needs held-out data") {
  check_epoch_end({});
  for (const EpochEndOptions& wrong : std::vector<EpochEndOptions>{{.patience = -1},
                                                                   {.keep = -1},
                                                                   {.keep = int64_t{1} << 40},
                                                                   {.plateau_patience = -1},
                                                                   {.plateau_factor = 0},
                                                                   {.plateau_factor = 1},
                                                                   {.plateau_factor = kNaN}})
    CHECK_THROWS_AS(check_epoch_end(wrong), Error);
  check_held_out({.patience = 2}, "plateau", true, "--x");
  check_held_out({.keep = 2}, "cosine", false, "--x");
  CHECK_THROWS_WITH_AS(check_held_out({.patience = 2}, "cosine", false, "--hold-out"),
                       "--patience 2 needs held-out data to judge an epoch by, and nothing is held "
                       "out; give --hold-out",
                       Error);
  CHECK_THROWS_WITH_AS(check_held_out({}, "plateau", false, "--hold-out"),
                       doctest::Contains("--schedule plateau needs held-out data"), Error);
}

}  // namespace
}  // namespace tern::apps
