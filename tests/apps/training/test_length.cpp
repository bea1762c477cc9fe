// The length of a run: --patience, --keep and --schedule plateau, --steps and --eval-steps, longer
// runs, warm-ups. A loop over all programs for each.
#include <doctest/doctest.h>

#include "tern/apps/common/training/run_record.h"
#include "tern/apps/common/training/training_options.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/training/in_process.h"
#include "tern/tests/support/same_bits.h"
#include "tern/train/checkpoint.h"
#include "tern/train/run_log.h"

namespace tern::test::test_length {
namespace {

namespace fs = std::filesystem;
using doctest::Contains;

// A learning rate that changes no weight, so that no epoch is better than the first.
constexpr double kNoRate = 1e-30;
const std::string kEarlyEnd =
    " --lr 1e-30 --warmup 0 --schedule plateau --plateau-patience 0 --plateau-factor 0.25"
    " --patience 3 --keep 2";
const std::string kConstant = " --schedule constant --warmup 0 --lr 1e-3";

bool has_epochs(const Training& t) { return t.epochs == " --epochs {}"; }

apps::TrainingOptions options_in(const Training& t, const std::string& folder) {
  const auto program = program_of(t.start());
  program->read_config({folder}, std::nullopt);
  return program->options();
}

// The run ends after epoch 4, because three epochs were no better than the first.
void check_ended_early(const training::RunFolder& folder, const std::string& metric) {
  const training::RunLog log = training::read_log(folder.log());
  REQUIRE(log.epochs.size() == 4);
  CHECK(contains(log.epochs.back().ended, metric + " was no better in 3 epochs than "));
  CHECK(contains(log.epochs.back().ended, " in epoch 1"));
  for (size_t i = 0; i < 4; ++i)  // epochs 2 and 3 were no better, so 3 and 4 have lower rates
    CHECK(log.epochs[i].lr / kNoRate == doctest::Approx(i < 2    ? 1
                                                        : i == 2 ? 0.25
                                                                 : 0.0625)
                                            .epsilon(1e-12));
  for (int64_t epoch : {1, 2, 3, 4}) {
    CAPTURE(epoch);
    CHECK(fs::exists(folder.checkpoint(epoch)) == (epoch > 2));
    CHECK(fs::exists(folder.weights(epoch)) == (epoch != 2));  // 1 is the best
  }
  CHECK(apps::load_run_record(folder).has_value());
  const std::string page = read_file(folder.file("report.html"));
  CHECK(contains(page, "patience 3, keeps 2 epochs"));
  CHECK(contains(page, "<p class=\"state\">Ended early, after epoch 4 of "));
  CHECK(contains(page, ": " + metric + " was no better in 3 epochs than "));
}

std::vector<int64_t> evaluated_steps(const training::RunFolder& folder) {
  std::vector<int64_t> steps;
  for (const training::EpochRecord& e : training::read_log(folder.log()).epochs)
    steps.push_back(e.steps);
  return steps;
}

}  // namespace

TEST_CASE("length: a run ends early, keeps epochs, stays ended, and goes on with more patience") {
  for (const Training& t : all_trainings()) {
    CAPTURE(t.name);
    const DataFolder dir;
    const training::RunFolder run{dir / "run"};
    REQUIRE(run_line(t.start(6, t.held_out + kEarlyEnd) + " --out run") == 0);
    check_ended_early(run, t.metric);
    CHECK(options_in(t, run.path).epoch_end == apps::EpochEndOptions{3, 2, 0, 0.25});
    // plateau does not depend on the length
    REQUIRE(run_line(t.resume() + (has_epochs(t) ? " --epochs 8" : "")) == 0);
    check_ended_early(run, t.metric);
    const auto told = [&] { return read_file(run.file("report.html")); };
    REQUIRE(run_line(t.resume() + " --patience 4") == 0);
    const training::RunLog log = training::read_log(run.log());
    CHECK(log.epochs.size() == 5);
    CHECK(contains(log.epochs.back().ended, " was no better in 4 epochs than "));
    CHECK(log.epochs[3].ended.empty());
    CHECK(contains(told(), "patience 4 from here on; it was 3"));
    REQUIRE(run_line(t.resume() + " --patience 0") == 0);
    const training::RunLog whole = training::read_log(run.log());
    CHECK(whole.epochs.size() == (has_epochs(t) ? 8 : 6));
    for (const training::EpochRecord& e : whole.epochs) CHECK(e.ended.empty());
    CHECK_FALSE(contains(told(), ", patience"));
    CHECK(options_in(t, run.path).epoch_end.patience == 0);
  }
}

TEST_CASE("length: a longer run ends at once if the patience was used up in the last epoch") {
  for (const Training& t : all_trainings()) {
    if (!has_epochs(t)) continue;
    CAPTURE(t.name);
    const DataFolder dir;
    const training::RunFolder run{dir / "run"};
    REQUIRE(run_line(t.start(4, t.held_out + kEarlyEnd) + " --out run") == 0);
    CHECK(training::read_log(run.log()).epochs.back().ended.empty());
    REQUIRE(run_line(t.resume() + " --epochs 8") == 0);
    check_ended_early(run, t.metric);
  }
}

TEST_CASE("length: patience and plateaus need held-out data, keeping epochs does not") {
  for (const Training& t : all_trainings()) {
    if (t.held_out.empty() || t.metric == "valid_bleu") continue;
    CAPTURE(t.name);
    const DataFolder dir;
    const std::string start = t.start(2) + kConstant + " --hold-out 0 --out run";
    CHECK_THROWS_WITH_AS(run_line(start + " --patience 3"),
                         Contains("--patience 3 needs held-out data to judge an epoch by"), Error);
    CHECK_THROWS_WITH_AS(run_line(t.start() + " --hold-out 0 --schedule plateau --out run"),
                         Contains("--schedule plateau needs held-out data"), Error);
    CHECK_FALSE(fs::exists("run"));
    REQUIRE(run_line(start + " --keep 1") == 0);
    CHECK(fs::exists(training::RunFolder{"run"}.checkpoint(2)));
    CHECK_THROWS_WITH_AS(run_line(t.resume() + " --patience 2"),
                         Contains("--patience 2 needs held-out"), Error);
  }
}

TEST_CASE(
    "length: steps and evaluations are counted in steps, and a longer run has the same bits") {
  for (const Training& t : all_trainings()) {
    CAPTURE(t.name);
    const DataFolder dir;
    const bool epochs = has_epochs(t);
    const std::string more = epochs ? "--epochs" : "--sequences";
    const std::string start = t.program + with(t.flags, t.held_out + kConstant + " --eval-steps 3");
    CHECK_THROWS_WITH_AS(run_line(start + " --steps 7 " + more + " 9"),
                         Contains((more + " would change nothing: --steps says how long").c_str()),
                         Error);
    const training::RunFolder run{dir / "run"}, nine{dir / "nine"};
    REQUIRE(run_line(start + " --steps 7 --out run") == 0);
    REQUIRE(run_line(start + " --steps 9 --out nine") == 0);
    CHECK(evaluated_steps(run) == std::vector<int64_t>{3, 6, 7});
    const std::string page = read_file(run.file("report.html"));
    CHECK(contains(page, "7 steps"));
    CHECK(contains(page, "evaluated every 3 steps"));
    CHECK(contains(page, "<summary>Every evaluation</summary>"));
    CHECK(contains(page, "<p>3 evaluations in "));
    if (epochs)
      CHECK_THROWS_WITH_AS(run_line(t.resume() + " --epochs 3"),
                           Contains("is counted in steps, 7 of them; give --steps"), Error);
    CHECK_THROWS_WITH_AS(run_line(t.resume() + " --steps 0"),
                         Contains("--steps 0: the length of this run is counted in steps"), Error);
    REQUIRE(run_line(t.resume() + " --steps 9") == 0);
    CHECK(evaluated_steps(run) == std::vector<int64_t>{3, 6, 7, 9});
    CHECK(evaluated_steps(nine) == std::vector<int64_t>{3, 6, 9});
    // Before its end the number of evaluations of the first run was estimated as 3.
    CHECK(contains(read_file(run.file("report.html")), "Finished: 4 of 4 evaluations."));
    CHECK(apps::load_run_record(run)->epochs == 4);
    CHECK(contains(page, "data-x=\"evaluation\""));
    check_same(training::load_checkpoint(run.checkpoint()).tensors,
               training::load_checkpoint(nine.checkpoint()).tensors);
  }
}

TEST_CASE("length: a run can be made longer, bit for bit, with rates that allow it") {
  const std::vector<std::string> schedules = {"constant", "noam", "inverse-sqrt"};
  const std::vector<Training> all = all_trainings();
  for (size_t i = 0; i < all.size(); ++i) {
    const Training& t = all[i];
    CAPTURE(t.name);
    const DataFolder dir;
    const std::string flags = t.held_out + " --ema 0.9 --warmup 2 --schedule " + schedules[i % 3];
    REQUIRE(run_line(t.start(2, flags) + " --out part") == 0);
    CHECK_THROWS_WITH_AS(run_line(t.resume("part") + " --steps 9"),
                         Contains("--steps 9: the length of this run is not counted in"), Error);
    if (!has_epochs(t)) continue;
    REQUIRE(run_line(t.start(3, flags) + " --out whole") == 0);
    REQUIRE(run_line(t.resume("part") + " --epochs 3 --tensorboard") == 0);
    for (const std::string& file : {std::string("model.safetensors"), t.config})
      CHECK(read_file(dir / "part/" + file) == read_file(dir / "whole/" + file));
    const training::RunFolder part{"part"}, whole{"whole"};
    CHECK(read_file(part.best_weights()) == read_file(whole.best_weights()));
    CHECK_THROWS_WITH_AS(run_line(t.resume("part") + " --epochs 1"), Contains("already in epoch 3"),
                         IoError);
  }
}

TEST_CASE(
    "length: a default warm-up is cut to a short run, a given one and a longer cosine refused") {
  for (const Training& t : all_trainings()) {
    CAPTURE(t.name);
    const DataFolder dir;
    const std::string start = t.start(2) + t.held_out + " --schedule cosine --out ";
    CHECK_THROWS_WITH_AS(run_line(start + "given --warmup 100"), Contains("a warm-up of 100 steps"),
                         Error);
    CHECK_FALSE(fs::exists("given"));
    REQUIRE(run_line(start + "run") == 0);
    const int64_t warmup = program_of(start + "x")->options().warmup;
    const int64_t steps = training::read_log(training::RunFolder{"run"}.log()).epochs.back().steps;
    CHECK(steps < 100);
    CHECK(options_in(t, "run").warmup == std::min(warmup, steps / 4));
    if (has_epochs(t))
      CHECK_THROWS_WITH_AS(run_line(t.resume() + " --epochs 3"), Contains("the cosine schedule"),
                           Error);
  }
}

}  // namespace tern::test::test_length
