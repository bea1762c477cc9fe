// Runs that end before their last epoch, by LoopOptions::patience or Loop::end(), and how they are
// resumed.
#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/temporary_stream.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_train_end {
namespace {

/// A training whose metric takes these values, one per epoch.
struct Ranked : Training {
  Ranked(const std::vector<double>& values, LoopOptions options) : Training(std::move(options)) {
    metric = [this, values] { return values.at(static_cast<size_t>(loop.epoch() - 1)); };
  }
};

LoopOptions patient(int64_t patience, bool largest = false, const std::string& folder = "") {
  return {.epochs = 8, .folder = folder, .best = {"rank", largest}, .patience = patience};
}

int64_t epochs_of(const std::vector<double>& values, int64_t patience, bool largest = false) {
  Ranked t(values, patient(patience, largest));
  CHECK(t.loop.run() == Outcome::finished);
  CHECK(t.loop.finished());
  CHECK(t.loop.why_ended().empty() == (t.loop.history().size() == 8));
  return std::ssize(t.loop.history());
}

const std::vector<double> kFalling = {8, 7, 6, 5, 4, 3, 2, 1};
const std::vector<double> kValley = {5, 4, 3, 3, 4, 2, 9, 9};  // twice two epochs are no better

TEST_CASE("patience: a run ends after this number of epochs without a better value") {
  CHECK(epochs_of(kFalling, 1) == 8);
  CHECK(epochs_of(kFalling, 1, true) == 2);
  CHECK(epochs_of(kFalling, 3, true) == 4);
  CHECK(epochs_of(kValley, 0) == 8);
  CHECK(epochs_of(kValley, 1) == 4);  // an equal value is not better
  CHECK(epochs_of(kValley, 2) == 5);
  CHECK(epochs_of(kValley, 3) == 8);                   // epoch 6 is the best; two follow
  CHECK(epochs_of({8, 7, 6, 5, 4, 3, 3, 3}, 2) == 8);  // ends with the run
  CHECK(epochs_of({kNan, kNan, 1, 1, 1, 1, 1, 1}, 3) == 6);
  CHECK(epochs_of({3, kNan, kNan, 2, 1, 1, 1, 1}, 2) == 3);  // NaN is never better
  CHECK(epochs_of(std::vector<double>(8, kNan), 2) == 2);
  CHECK(epochs_of({kInf, kInf, 1, 1, 1, 1, 1, 1}, 2) == 5);

  const std::vector<EpochRecord> two = {{.epoch = 1, .metrics = {{"rank", 1}}},
                                        {.epoch = 2, .metrics = {{"rank", 2}}}};
  CHECK(epochs_since_best(two, {"rank"}) == 1);
  CHECK(epochs_since_best(two, {"rank", true}) == 0);
  CHECK(epochs_since_best({}, {"rank"}) == 0);
}

TEST_CASE("patience: the reason is printed, in the log, and known after a resume") {
  TempDir dir;
  const TemporaryStream output;
  const std::string why = "rank was no better in 2 epochs than 3 in epoch 3";
  for (const bool resumed : {false, true}) {
    Linear t;
    LoopOptions options = patient(2, false, dir / "run");
    options.output = output.get();
    int64_t closed = 0;
    Loop loop(t.learner, t.loader,
              {.loss = loss_of(t.model),
               .evaluate =
                   [&] {
                     return Metrics{{"rank", kValley[size_t(closed++)]}};
                   }},
              options);
    CHECK(loop.resume() == resumed);
    CHECK(loop.finished() == resumed);
    CHECK(loop.run() == Outcome::finished);
    CHECK(loop.why_ended() == why);
    CHECK(closed == (resumed ? 0 : 5));
    CHECK(loop.history().size() == 5);
    const RunLog log = read_log(loop.folder().log());
    REQUIRE(log.epochs.size() == 5);
    CHECK(log.epochs.back().ended == why);
    CHECK(log.epochs[3].ended.empty());
    const std::string text = read_file(loop.folder().log());
    CHECK(contains(text, "\"ended\":\"" + why + "\"}\n"));
  }
  const std::string said = output.text();
  CHECK(contains(said, "ended after epoch 5 of 8: " + why + "\n"));
  CHECK(contains(said, "ended after epoch 5 of 8 and 30 steps: " + why + "\n"));
}

TEST_CASE("patience: a run resumed from any step ends where the uninterrupted one does") {
  Ranked whole(kValley, patient(2));
  REQUIRE(whole.loop.run() == Outcome::finished);
  CHECK(whole.learner.steps() == 10);
  for (int before = 0; before < 10; ++before) {
    CAPTURE(before);
    Ranked first(kValley, patient(2)), second(kValley, patient(2));
    resume_after(before, first, second);
    CHECK(second.loop.run() == Outcome::finished);
    CHECK(second.loop.history().size() == 5);
    CHECK(second.loop.why_ended() == whole.loop.why_ended());
    check_same(whole.learner.weights(), second.learner.weights());
  }
}

TEST_CASE("patience: together with a plateau, whose rate falls before the run ends") {
  LearnerOptions learning;
  learning.plateau = make_plateau({.name = "plateau", .plateau_patience = 1}, false);
  const auto rates = [&](int64_t stopped_before, double& weight) {
    TempDir dir;
    LoopOptions options = patient(5, false, dir / "run");
    auto run = std::make_unique<Training>(options, learning);
    for (int i = 0; i < 2; ++i) {  // until it is stopped, then to its end
      Training& t = *run;
      t.metric = [&t] { return t.loop.epoch() == 2 ? -1.0 : 0.0; };
      t.evaluated = [&t, &stopped_before] {
        if (t.loop.epoch() == std::exchange(stopped_before, 0)) std::raise(SIGINT);
      };
      if (t.loop.run() == Outcome::finished) break;
      run = std::make_unique<Training>(options, learning);
      REQUIRE(run->loop.resume());
    }
    std::vector<double> found;
    for (const EpochRecord& e : run->loop.history()) found.push_back(e.lr / 0.02);
    weight = run->model.up.weight.tensor()[0][0].item();
    return found;
  };
  // Epoch 2 is the best. The plateau reduces the rate after epochs 4 and 6; epoch 7 ends the run.
  double whole = 0, resumed = 0;
  CHECK(rates(0, whole) == std::vector<double>{1, 1, 1, 1, .5, .5, .25});
  for (int64_t epoch = 1; epoch <= 7; ++epoch) {
    CHECK(rates(epoch, resumed) == std::vector<double>{1, 1, 1, 1, .5, .5, .25});
    CHECK(resumed == whole);
  }
  LoopOptions largest = patient(5, true);
  CHECK_THROWS_WITH_AS(Training(largest, learning), doctest::Contains("set both to the same"),
                       Error);
}

TEST_CASE("patience: a resumed run may have another patience, as if it had it from the start") {
  for (const int64_t first : {0, 1, 2}) {
    for (const int64_t second : {0, 1, 2, 3}) {
      CAPTURE(first);
      CAPTURE(second);
      TempDir dir;
      {
        Ranked t(kValley, patient(first, false, dir / "run"));
        t.loop.folder().make();
        while (!t.loop.finished() && t.loop.epoch() <= 5) {
          t.loop.step();
          if (t.loop.epoch_trained()) REQUIRE(t.loop.close_epoch());
        }
        t.loop.checkpoint().save(t.loop.folder().checkpoint());
      }
      // Closed epochs stay, though with a patience of 1 the run would have ended after the fourth.
      const int64_t same = second == 1 && first != 1 ? 2 : second;
      Ranked t(kValley, patient(second, false, dir / "run")), whole(kValley, patient(same));
      REQUIRE(t.loop.resume());
      t.loop.apply_patience();
      REQUIRE(t.loop.run() == Outcome::finished);
      REQUIRE(whole.loop.run() == Outcome::finished);
      CHECK(t.loop.history().size() == whole.loop.history().size());
      check_same(t.learner.weights(), whole.learner.weights());
      CHECK(contains(read_file(t.loop.folder().log()), "ended") == !t.loop.why_ended().empty());
    }
  }
}

TEST_CASE("patience: invalid values") {
  LoopOptions nameless = patient(2);
  nameless.best = {};
  CHECK_THROWS_WITH_AS(Training t(nameless), doctest::Contains("needs a metric"), Error);
  CHECK_THROWS_WITH_AS(Training t(patient(-1)), doctest::Contains("must not be negative"), Error);
}

TEST_CASE("on_epoch may end a run; when resumed it continues only if the end is revoked") {
  TempDir dir;
  LoopOptions options{.epochs = 4, .folder = dir / "run"};
  Loop* loop = nullptr;
  options.on_epoch = [&](const EpochRecord& e) {  // a callback returns nothing
    if (e.epoch == 2) loop->end("enough \"was\"\nlearned");
  };
  {
    Training t(options);
    loop = &t.loop;
    CHECK_THROWS_WITH_AS(t.loop.end("now"), doctest::Contains("an epoch must be closed"), Error);
    REQUIRE(t.loop.run() == Outcome::finished);
    CHECK(t.loop.finished());
    CHECK(t.loop.history().size() == 2);
    CHECK(t.loop.why_ended() == "enough \"was\"\nlearned");
    CHECK(read_log(t.loop.folder().log()).epochs.back().ended == t.loop.why_ended());
  }
  Training again(options);
  loop = &again.loop;
  REQUIRE(again.loop.resume());
  CHECK(again.loop.finished());
  CHECK(again.loop.run() == Outcome::finished);
  CHECK(again.loop.history().size() == 2);

  Training on(options), whole(LoopOptions{.epochs = 4});
  loop = &on.loop;
  REQUIRE(on.loop.resume());
  on.loop.end("");
  CHECK_FALSE(on.loop.finished());
  REQUIRE(on.loop.run() == Outcome::finished);
  REQUIRE(whole.loop.run() == Outcome::finished);
  CHECK(on.loop.history().size() == 4);
  CHECK_FALSE(contains(read_file(on.loop.folder().log()), "ended"));
  check_same(on.learner.weights(), whole.learner.weights());
}

TEST_CASE("on_epoch may end its loop, even if it captures the loop in its constructor") {
  Linear t;
  Loop loop(t.learner, t.loader, {.loss = loss_of(t.model)},
            {.epochs = 3, .terminal = false, .on_epoch = [&](const EpochRecord&) {
               loop.end("one is enough");
             }});
  CHECK(loop.run() == Outcome::finished);
  CHECK(t.learner.steps() == 6);
  loop.end("");
  loop.step();
  CHECK_THROWS_WITH_AS(loop.end("in mid-epoch"), doctest::Contains("no step taken"), Error);
}

}  // namespace
}  // namespace tern::test::test_train_end
