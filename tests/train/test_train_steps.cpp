// Loops whose length and evaluations are counted in steps (LoopOptions::steps, evaluate_steps),
// stopped and resumed against uninterrupted ones.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/temporary_stream.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_steps {
namespace {

// The fixture has six batches per epoch: with accumulate = 0 (see there) six steps, else two.
LoopOptions counted(int64_t steps, int64_t evaluate_steps, int64_t accumulate = 0) {
  return {.steps = steps, .evaluate_steps = evaluate_steps, .accumulate = accumulate};
}

// The steps after which a run evaluates.
std::vector<int64_t> evaluations(const LoopOptions& options) {
  Training t(options);
  std::vector<int64_t> counted, seen;
  t.evaluated = [&] { seen.push_back(t.learner.steps()); };
  CHECK(t.loop.run() == Outcome::finished);
  CHECK(t.loop.finished());
  CHECK(t.loop.epochs() == std::ssize(t.loop.history()));
  for (const EpochRecord& e : t.loop.history()) counted.push_back(e.steps);
  CHECK(counted == seen);
  CHECK(t.learner.steps() == counted.back());
  CHECK(t.loop.total_steps() == counted.back());
  return seen;
}

using Steps = std::vector<int64_t>;

}  // namespace

TEST_CASE("steps: where a run evaluates and ends") {
  CHECK(evaluations(counted(15, 0)) == Steps{6, 12, 15});
  CHECK(evaluations(counted(12, 0)) == Steps{6, 12});
  CHECK(evaluations(counted(4, 0)) == Steps{4});
  CHECK(evaluations(counted(15, 4)) == Steps{4, 8, 12, 15});
  CHECK(evaluations(counted(3, 100)) == Steps{3});
  CHECK(evaluations(counted(14, 7)) == Steps{7, 14});
  CHECK(evaluations({.epochs = 2, .evaluate_steps = 5, .accumulate = 0}) == Steps{5, 10, 12});
  CHECK(evaluations({.epochs = 2, .evaluate_steps = 6, .accumulate = 0}) == Steps{6, 12});
  // Two steps per epoch, of four and two batches.
  CHECK(evaluations(counted(5, 0, 4)) == Steps{2, 4, 5});
  CHECK(evaluations(counted(5, 3, 4)) == Steps{3, 5});
  CHECK(evaluations({.epochs = 2, .evaluate_steps = 3, .accumulate = 4}) == Steps{3, 4});
}

TEST_CASE("steps: a run of 12 steps has the weights of a run of two epochs of six") {
  Training epochs({.epochs = 2, .accumulate = 0}), steps(counted(12, 0)), often(counted(12, 5));
  for (Training* t : {&epochs, &steps, &often}) REQUIRE(t->loop.run() == Outcome::finished);
  for (Training* t : {&steps, &often}) check_same(epochs.learner.weights(), t->learner.weights());
}

TEST_CASE("steps: on_epoch may end a run while the loader is in mid-epoch") {
  Loop* loop = nullptr;
  LoopOptions options = counted(15, 4);
  options.on_epoch = [&](const EpochRecord&) { loop->end("enough"); };
  Training t(options);
  loop = &t.loop;
  CHECK(t.loop.run() == Outcome::finished);
  CHECK(t.learner.steps() == 4);
  CHECK(t.loop.why_ended() == "enough");
}

TEST_CASE("steps: means are those of the steps since the last evaluation") {
  Training t(counted(5, 2));
  std::vector<double> losses;
  t.watch = [&](double loss) { losses.push_back(loss); };
  REQUIRE(t.loop.run() == Outcome::finished);
  REQUIRE(losses.size() == 5);
  CHECK(t.loop.history()[0]["train_loss"] == doctest::Approx((losses[0] + losses[1]) / 2));
  CHECK(t.loop.history()[2]["train_loss"] == doctest::Approx(losses[4]));
}

TEST_CASE("steps: a run stopped or killed anywhere ends with the files of an uninterrupted one") {
  TempDir dir;
  for (const LoopOptions& how : {counted(15, 4), counted(8, 0), counted(5, 3, 4),
                                 LoopOptions{.epochs = 2, .evaluate_steps = 5, .accumulate = 0}}) {
    const auto options = [&](const std::string& name) {
      LoopOptions o = how;
      o.folder = dir / fmt::format("{}-{}-{}", name, how.steps, how.evaluate_steps);
      o.best = {"valid_loss"};
      o.keep = 2;
      o.tensorboard = true;
      return o;
    };
    Training whole(options("whole"));
    int64_t batches = 0;
    whole.before_batch = [&](int64_t number) { batches = number; };
    REQUIRE(whole.loop.run() == Outcome::finished);
    REQUIRE(batches >= 8);
    for (int64_t batch = 1; batch <= batches; ++batch)
      for (const bool killed : {false, true}) {
        CAPTURE(batch);
        CAPTURE(killed);
        LoopOptions broken = options(fmt::format("{}-{}", batch, killed));
        broken.checkpoint_steps = killed ? 1 : 0;
        run_to_batch(broken, batch, killed);
        Training again(broken);
        REQUIRE(again.loop.resume());
        CHECK(again.loop.checkpoint().notes().empty());
        REQUIRE(again.loop.run() == Outcome::finished);
        CHECK(again.loop.history().size() == whole.loop.history().size());
        std::vector<std::string> files = {"model.safetensors", "best.safetensors"};
        for (int64_t e = 1; e <= std::ssize(whole.loop.history()); ++e)
          files.push_back(std::filesystem::path(RunFolder{"x"}.weights(e)).filename().string());
        for (const std::string& file : files) {
          CAPTURE(file);
          const std::string path = whole.loop.folder().file(file);
          CHECK(std::filesystem::exists(again.loop.folder().file(file)) ==
                std::filesystem::exists(path));
          if (std::filesystem::exists(path))
            CHECK(read_file(again.loop.folder().file(file)) == read_file(path));
        }
        const auto a = read_log(whole.loop.folder().log()), b = read_log(again.loop.folder().log());
        REQUIRE(a.steps.size() == b.steps.size());
        for (size_t i = 0; i < a.steps.size(); ++i) CHECK(a.steps[i].loss == b.steps[i].loss);
      }
  }
}

TEST_CASE("steps: a run resumes from a kept evaluation in the middle of the loader's epoch") {
  TempDir dir;
  LoopOptions o = counted(15, 4);
  o.folder = dir / "run";
  o.keep = 4;
  Training whole(o);
  REQUIRE(whole.loop.run() == Outcome::finished);
  const std::string weights = read_file(whole.loop.folder().weights());
  for (const int64_t after : {1, 2, 3}) {
    Training again(o);
    again.loop.resume(after);
    CHECK(again.learner.steps() == after * 4);
    REQUIRE(again.loop.run() == Outcome::finished);
    CHECK(read_file(again.loop.folder().weights()) == weights);
  }
}

TEST_CASE("steps: patience counts evaluations") {
  LoopOptions o = counted(100, 4);
  o.best = {"rank"};  // the metric stays 0
  o.patience = 2;
  Training t(o);
  REQUIRE(t.loop.run() == Outcome::finished);
  CHECK(t.learner.steps() == 12);
  CHECK(contains(t.loop.why_ended(), "rank was no better"));
}

TEST_CASE("steps: patience ends a run within an epoch of the loader, and the end is revoked") {
  TempDir dir;
  LoopOptions o = counted(100, 5);  // evaluations within epochs of six steps
  o.folder = dir / "run";
  o.best = {"rank"};  // the metric stays 0
  o.patience = 2;
  {
    Training t(o);
    REQUIRE(t.loop.run() == Outcome::finished);
    CHECK(t.learner.steps() == 15);
  }
  o.patience = 3;
  Training t(o);
  REQUIRE(t.loop.resume());
  REQUIRE(t.loop.finished());
  t.loop.apply_patience();
  CHECK_FALSE(t.loop.finished());
  t.loop.end("by hand");
  CHECK(t.loop.finished());
  t.loop.end("");
  REQUIRE(t.loop.run() == Outcome::finished);
  CHECK(t.learner.steps() == 20);
}

TEST_CASE("steps: a run may be resumed longer, not shorter; epochs may continue as steps") {
  TempDir dir;
  LoopOptions o = counted(8, 3);
  o.folder = dir / "run";
  Training first(o);
  REQUIRE(first.loop.run() == Outcome::finished);
  o.steps = 7;
  Training shorter(o);
  CHECK_THROWS_WITH_AS(shorter.loop.resume(),
                       doctest::Contains("the run has already taken 8 steps, but its length is 7"),
                       IoError);
  o.steps = 15;
  Training longer(o), whole(counted(15, 3));
  REQUIRE(longer.loop.resume());
  REQUIRE(longer.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.run() == Outcome::finished);
  CHECK(longer.learner.steps() == 15);
  check_same(longer.learner.weights(), whole.learner.weights());
  // A run counted in epochs, stopped in its second one, resumes as a run counted in steps.
  Training epochs({.accumulate = 0}), steps(counted(15, 4));
  for (int i = 0; i < 8; ++i) epochs.step();
  steps.loop.load_state(epochs.loop.state(), "c");
  CHECK(steps.loop.checkpoint().notes() ==
        std::vector<std::string>{"evaluate_steps is 4 from here on, as in the program; it was 0"});
  REQUIRE(steps.loop.run() == Outcome::finished);
  CHECK(same_bits(steps.model.up.weight.own(), whole.model.up.weight.own()));
}

TEST_CASE("steps: invalid options") {
  const auto refused = [](const LoopOptions& o, const char* why) {
    CHECK_THROWS_WITH_AS(Training t(o), doctest::Contains(why), Error);
  };
  refused({.epochs = 2, .steps = 5}, "given as 5 steps and as 2 epochs; leave one of the two out");
  refused({.steps = -1}, "must not be negative");
  refused({.evaluate_steps = -1}, "must not be negative");
}

TEST_CASE("steps: the lines on a terminal count steps") {
  TempDir dir;
  const TemporaryStream output;
  for (const int64_t stop : {7, 0, 0})
    run_linear({.steps = 10, .evaluate_steps = 5, .folder = dir / "run", .output = output.get()},
               .5, stop);
  const std::string text = output.text();
  CHECK(contains(text, "step  5/10  train_loss "));
  CHECK(contains(text, "samples/s"));
  CHECK(contains(text, "\nstopped after 7 steps; to resume: run it again\n"));
  CHECK(contains(text, "\nresumes after 7 of 10 steps\n"));
  CHECK(contains(text, "\nstep 10/10  train_loss "));
  CHECK(contains(text, "\nall 10 steps are done\n"));
  CHECK_FALSE(contains(text, "epoch"));
}

}  // namespace tern::test::test_train_steps
