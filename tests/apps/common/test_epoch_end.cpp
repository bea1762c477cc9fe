// --patience, --keep, --schedule plateau, --steps and --eval-steps: how flags and config.json set
// the loop, the schedule and the recipe.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/apps/common/training/training_options.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/tensors.h"
#include "tern/train/loop.h"
#include "tern/train/optimizer.h"

namespace tern::apps::test_epoch_end {
namespace {

using test::kNan;

/// The options that these flags give.
TrainingOptions parse(std::vector<std::string> words, const std::string& schedule = "plateau") {
  TrainingOptions o;
  o.schedule = schedule;
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  const TrainingTraits traits{.optimizers = training::optimizer_names()};
  const Command command{.settings = [&](Settings& s) { add_training_settings(s, o, traits); },
                        .check = [&](const Given&) { check_training_options(o); }};
  apps::parse({"program", "a test", {command}}, static_cast<int>(argv.size()), argv.data());
  return o;
}

/// The options as read back from a file that has these.
TrainingOptions read(const EpochEndOptions& epoch_end) {
  TrainingOptions o{.epoch_end = epoch_end};
  Settings s;
  add_training_settings(s, o, {.optimizers = training::optimizer_names()});
  settings_from_json(settings_to_json(s), s);
  return o;
}

TEST_CASE("epoch end: what the flags set in loop and schedule") {
  const TrainingOptions o =
      parse({"--patience", "3", "--keep=2", "--plateau-patience", "0", "--plateau-factor", "0.25"});
  CHECK(o.epoch_end == EpochEndOptions{3, 2, 0, 0.25});
  CHECK(parse({}, "cosine").epoch_end == EpochEndOptions{});
  training::LoopOptions loop;
  set_loop_options(loop, o);
  CHECK(loop.keep == 0);  // there is no folder to keep epochs in
  loop.folder = "runs/a";
  set_loop_options(loop, o);
  CHECK(loop.patience == 3);
  CHECK(loop.keep == 2);
  const auto plateau = training::make_plateau(schedule_options(o), true);
  REQUIRE(plateau);
  CHECK(plateau->patience == 0);
  CHECK(plateau->factor == 0.25);
  const auto told = [](TrainingOptions all) {
    Settings s;
    add_training_settings(s, all, {.optimizers = training::optimizer_names()});
    return recipe_text(s);
  };
  CHECK(told(o).ends_with(
      ", seed 0, rate times 0.25 after 1 epoch no better, patience 3, keeps 2 epochs"));
  CHECK(told({}).ends_with(", seed 0"));
  for (const std::string flag : {"--plateau-patience=1", "--plateau-factor=0.5"})
    CHECK_THROWS_WITH_AS(parse({flag}, "cosine"),
                         doctest::Contains("would change nothing: --schedule is cosine"), Error);
  for (const char* wrong : {"--patience=-1", "--keep=1.5", "--plateau-factor=0",
                            "--plateau-factor=1", "--plateau-patience=x"})
    CHECK_THROWS_AS(parse({wrong}), Error);
}

TEST_CASE("length: what the flags set in loop, schedule and recipe") {
  const TrainingOptions o = parse({"--steps", "500", "--eval-steps=50", "--keep=2"}, "cosine");
  CHECK(o.length == LengthOptions{500, 50});
  training::LoopOptions loop;
  set_loop_options(loop, o);
  CHECK(loop.steps == 500);
  CHECK(loop.evaluate_steps == 50);
  CHECK(loop.epochs == 1);
  // The schedule ends with the run, whatever the number of epochs.
  const auto schedule = learner_options(o, 7).schedule;
  CHECK(schedule(250) == doctest::Approx(0.5));
  CHECK(schedule(500) == doctest::Approx(0));
  CHECK(describe_length(o) == "500 steps");
  TrainingOptions told = o;
  Settings s;
  s.number("epochs", told.epochs, kCount, "").says(true, "{} epochs", told.epochs);
  add_training_settings(s, told, {.optimizers = training::optimizer_names()});
  CHECK(recipe_text(s).starts_with("500 steps, evaluated every 50 steps, "));
  CHECK(recipe_text(s).ends_with(", keeps 2 evaluations"));
  // Older files have neither member.
  TrainingOptions old;
  Settings rows;
  add_training_settings(rows, old, {.optimizers = training::optimizer_names()});
  std::string file = settings_to_json(rows);
  for (const std::string member : {"\"eval_steps\": 0,", "\"steps\": 0,"}) {
    const size_t at = file.find(member);
    REQUIRE(at != std::string::npos);
    file.erase(at, member.size());
  }
  old.length = {1, 1};
  settings_from_json(file, rows);
  CHECK(old.length == LengthOptions{1, 1});  // unchanged
  for (const char* wrong : {"--steps=-1", "--eval-steps=1.5"})
    CHECK_THROWS_AS(parse({wrong}), Error);
}

TEST_CASE("epoch end: values that a file may not have, and options that need held-out data") {
  CHECK(read({}).epoch_end == EpochEndOptions{});
  for (const EpochEndOptions& wrong : std::vector<EpochEndOptions>{{.patience = -1},
                                                                   {.keep = -1},
                                                                   {.keep = int64_t{1} << 40},
                                                                   {.plateau_patience = -1},
                                                                   {.plateau_factor = 0},
                                                                   {.plateau_factor = 1},
                                                                   {.plateau_factor = kNan}})
    CHECK_THROWS_AS(read(wrong), Error);
  check_held_out({.schedule = "plateau", .epoch_end = {.patience = 2}}, true, "--x");
  check_held_out({.epoch_end = {.keep = 2}}, false, "--x");
  CHECK_THROWS_WITH_AS(check_held_out({.epoch_end = {.patience = 2}}, false, "--hold-out"),
                       "--patience 2 needs held-out data to judge an epoch by, and nothing is held "
                       "out; give --hold-out",
                       Error);
  CHECK_THROWS_WITH_AS(check_held_out({.schedule = "plateau"}, false, "--hold-out"),
                       doctest::Contains("--schedule plateau needs held-out data"), Error);
}

}  // namespace
}  // namespace tern::apps::test_epoch_end
