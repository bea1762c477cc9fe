// log.jsonl: which steps have lines, what the lines say, and reading a log back.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_run_log {
namespace {

// The content of a log without times and speeds.
std::string timeless(const std::string& path) {
  const RunLog log = read_log(path);
  std::string text;
  for (const StepRecord& r : log.steps) text += log_line(r) + "\n";
  for (EpochRecord e : log.epochs) {
    e.speed = e.seconds = 0;
    text += log_line(e, log.unit) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("run log: every step up to 255, then 128 per doubling") {
  std::vector<int64_t> kept;
  for (int64_t step = -3; step <= 1 << 16; ++step)
    if (has_record(step)) kept.push_back(step);
  CHECK(kept.front() == 1);
  for (size_t i = 0; i < 255; ++i) CHECK(kept[i] == static_cast<int64_t>(i) + 1);
  for (int64_t low = 128; low < 1 << 16; low *= 2)
    CHECK(std::count_if(kept.begin(), kept.end(),
                        [&](int64_t s) { return s >= low && s < 2 * low; }) == 128);
}

TEST_CASE("run log: records are means over the steps since the previous record") {
  StepLog log;
  for (int64_t s = 1; s <= 1030; ++s)
    CHECK(log.add({s, static_cast<double>(s), 0.5 * static_cast<double>(s), 2.0 * s}) ==
          has_record(s));
  int64_t before = 0;
  for (const StepRecord& r : log.records()) {
    CHECK(r.loss == doctest::Approx(0.5 * static_cast<double>(before + 1 + r.step)));
    CHECK(r.grad_norm == doctest::Approx(static_cast<double>(before + 1 + r.step)));
    CHECK(r.lr == 0.5 * static_cast<double>(r.step));
    before = r.step;
  }
  CHECK(log.sums().count == 1030 - before);
  const StepLog same(log.records(), log.sums());
  CHECK(same.records().size() == log.records().size());
  CHECK_THROWS_AS(StepLog({{2, 0, 0, 0}, {2, 0, 0, 0}}, {}), Error);
  CHECK_THROWS_AS(StepLog({}, {0, 0, -1}), Error);
}

TEST_CASE("run log: steps have the loss, the learning rate and the norm before clipping") {
  for (const bool clipped : {false, true}) {
    LearnerOptions learning = Training::busy();
    learning.clip = clipped ? 1e-3 : 0;
    Training t({}, learning);
    std::vector<double> norms, losses;
    t.learner.on_gradient([&](const std::string& name, const Tensor& g) {
      if (name == nn::named_parameters(t.model).front().first) norms.push_back(0);
      norms.back() += sum(square(g.to(DType::f64))).item();
    });
    for (int i = 0; i < 6; ++i) t.step();
    REQUIRE(t.loop.close_epoch());
    const auto& steps = t.loop.step_history();
    REQUIRE(steps.size() == 6);
    for (size_t i = 0; i < 6; ++i) {
      CHECK(steps[i].step == static_cast<int64_t>(i) + 1);
      CHECK(steps[i].grad_norm == doctest::Approx(std::sqrt(norms[i])).epsilon(1e-5));
      CHECK(steps[i].lr == doctest::Approx(0.02 * learning.schedule(static_cast<int64_t>(i))));
    }
    // The epoch's loss is the mean over its points: the two steps have 16 and 6.
    const auto& epochs = t.loop.history();
    CHECK((steps[2].loss * 16 + steps[3].loss * 6) / 22 ==
          doctest::Approx(epochs[1]["train_loss"]));
    CHECK(epochs[1].steps == 4);
  }
}

TEST_CASE("run log: the gradient norm is the same with steps inside backward") {
  double norms[2] = {};
  for (const bool inside : {false, true}) {
    Rng rng(5);
    Net model(rng);
    optim::AdamW optimizer(nn::named_parameters(model), {.lr = 0.01});
    Learner learner(model, optimizer, {.step_in_backward = inside});
    int64_t seen = 0;
    learner.on_gradient([&](const std::string&, const Tensor&) { ++seen; });
    CHECK(std::isnan(learner.grad_norm()));
    learner.backward(cross_entropy(model(ones({3, 4})), zeros({3}, DType::i64)));
    learner.step();
    norms[inside] = learner.grad_norm();
    CHECK(seen == std::ssize(nn::named_parameters(model)));
  }
  CHECK(norms[0] > 0);
  CHECK(norms[1] == norms[0]);
}

TEST_CASE("run log: a killed or stopped run has the log of an uninterrupted one") {
  TempDir dir;
  Training whole({.folder = dir / "whole"});
  REQUIRE(whole.loop.run() == Outcome::finished);
  const std::string expected = timeless(dir / "whole/log.jsonl");
  CHECK(std::count(expected.begin(), expected.end(), '\n') == 6 + 3);
  for (int64_t batch : {1, 5, 6, 7, 13})
    for (const bool killed : {false, true}) {
      const LoopOptions options{.folder = dir / fmt::format("{}-{}", batch, killed),
                                .checkpoint_steps = killed ? 2 : 0};
      run_to_batch(options, batch, killed);
      Training again(options);
      REQUIRE(again.loop.resume());
      REQUIRE(again.loop.run() == Outcome::finished);
      CHECK(timeless(options.folder + "/log.jsonl") == expected);
    }
}

TEST_CASE("run log: lines are read back, and an incomplete last line is left out") {
  TempDir dir;
  const std::vector<EpochRecord> epochs = {
      {.epoch = 1, .metrics = {{"train_loss", 2}}, .speed = 5, .lr = 0.5, .steps = 2},
      {.epoch = 2, .metrics = {{"train_loss", kNan}}, .seconds = 3, .steps = 3}};
  const std::vector<StepRecord> steps = {
      {1, 0.25, 1, 2}, {2, 0.5, 1, INFINITY}, {3, 1, 1, 1}, {4, 1, 1, 1}};
  const std::vector<std::string> lines = log_lines(epochs, steps, "images");
  REQUIRE(lines.size() == 6);
  CHECK(lines[1] == R"({"step":2,"loss":0.5,"lr":1.0,"grad_norm":null})");
  CHECK(lines[2].starts_with(R"({"epoch":1,)"));
  CHECK(lines[4].starts_with(R"({"epoch":2,)"));
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const RunLog log = read_log(write_file(dir / "log", text + R"({"step":9,"los)"));
  REQUIRE(log.epochs.size() == 2);
  CHECK(log.unit == "images");
  CHECK(log.epochs[0]["train_loss"] == 2);
  CHECK(log.epochs[0].speed == 5);
  CHECK(log.epochs[0].lr == 0.5);
  CHECK(log.epochs[1].steps == 3);
  CHECK(log.epochs[1].seconds == 3);
  CHECK(std::isnan(log.epochs[1]["train_loss"]));
  REQUIRE(log.steps.size() == 4);
  CHECK(log.steps[0].loss == 0.25);
  CHECK(std::isnan(log.steps[1].grad_norm));

  // A log of an earlier version.
  const RunLog old = read_log(write_file(
      dir / "old", "{\"epoch\":1,\"train_loss\":1.5,\"tokens_per_s\":7,\"lr\":1,\"seconds\":2}\n"));
  CHECK(old.steps.empty());
  CHECK(old.epochs.at(0).steps == 0);
  CHECK(read_log(write_file(dir / "empty", "")).epochs.empty());
}

TEST_CASE("run log: errors in a log give file and line") {
  TempDir dir;
  const std::string step = "{\"step\":1,\"loss\":1,\"lr\":1,\"grad_norm\":1}\n";
  for (const char* bad :
       {"[1]\n", "text\n", "\n", "{}\n", "{\"epoch\":\"x\"}\n", "{\"step\":1,\"loss\":1}\n",
        "{\"step\":1,\"loss\":1,\"lr\":1,\"grad_norm\":1}\n", "{\"epoch\":0}\n",
        "{\"epoch\":1.5}\n", "{\"epoch\":1,\"steps\":1e300}\n",
        "{\"step\":1e300,\"loss\":1,\"lr\":1,\"grad_norm\":1}\n",
        "{\"step\":18446744073709551615,\"loss\":1,\"lr\":1,\"grad_norm\":1}\n",
        "{\"epoch\":1,\"x\":[1]}\n", "{\"step\":2,\"loss\":[[[[[[[[]]]]]]]]}\n"}) {
    CAPTURE(bad);
    const std::string path = write_file(dir / "bad", step + bad);
    CHECK(contains(io_error([&] { read_log(path); }), "bad:2: "));
  }
  CHECK(contains(io_error([&] { read_log(dir / "none"); }), "none: cannot be read"));
  CHECK(contains(io_error([&] { read_log(dir.path()); }), "cannot be read"));
}

TEST_CASE("run log: a state without steps, from an earlier version, can be resumed") {
  Training t, later;
  for (int i = 0; i < 3; ++i) t.step();
  SafeTensors state = t.loop.state();
  for (auto& [key, text] : state.metadata)
    if (const size_t at = text.find("\"steps\":{"); at != text.npos)
      text.erase(at, text.find("\"train_seconds\"") - at);
  later.loop.load_state(state, "old");
  CHECK(later.loop.step_history().empty());
  for (int i = 0; i < 3; ++i) later.step();
  REQUIRE(later.loop.step_history().size() == 3);
  CHECK(later.loop.step_history()[0].step == 4);
}

}  // namespace tern::test::test_run_log
