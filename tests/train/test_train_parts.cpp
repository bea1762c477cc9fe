// Small parts of train/: texts between ranks, signals, schedules and optimizers by name, the state
// of a loop as text, metrics, and the progress bar.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <regex>

#include "tern/core/ops/ops.h"
#include "tern/nn/linear.h"
#include "tern/optim/sgd.h"
#include "tern/tests/support/tensors.h"
#include "tern/train/detail/exact_text.h"
#include "tern/train/detail/loop_state.h"
#include "tern/train/detail/progress_line.h"
#include "tern/train/train.h"

namespace tern::training::test_train_parts {

using test::kInf, test::kNan;

TEST_CASE("train: numbers between ranks keep their bits in every locale") {
  for (double v : {0.0, -0.0, 0.1, -1e300, 5e-324, kNan, kInf}) {
    const std::string text = detail::exact_text(v);
    CHECK(text.find_first_not_of("0123456789abcdef") == text.npos);  // no decimal point or comma
    const double back = detail::exact_number(text);
    CHECK(std::bit_cast<uint64_t>(back) == std::bit_cast<uint64_t>(v));
  }
  for (const char* wrong :
       {"", "0x1,8p+1", "3ff800000000000", "3ff80000000000000", "3ff8 0000000000"})
    CHECK_THROWS_WITH_AS(detail::exact_number(wrong), doctest::Contains("for a number"), Error);
  std::string_view rest = "a b\nc";
  CHECK(detail::taken_until(rest, ' ') == "a");
  CHECK(detail::taken_until(rest, '\n') == "b");
  CHECK(detail::taken_until(rest, '\n') == "c");
  CHECK(rest.empty());
}

TEST_CASE("train: a loop follows a loader whose epochs have different numbers of batches") {
  auto loader = datasets::Loader<int64_t>(
      [](int64_t epoch, Rng) {
        datasets::EpochPlan plan;
        for (int64_t i = 0; i <= epoch; ++i) plan.order.push_back(i), plan.ends.push_back(i + 1);
        return plan;
      },
      [](const datasets::BatchPlan& plan) {
        return plan.position.epoch * 10 + plan.position.batch;
      },
      {});
  Rng rng(1);
  nn::Linear model(1, 1, rng);
  optim::Sgd optimizer(nn::named_parameters(model));
  Learner learner(model, optimizer);
  std::vector<int64_t> seen;
  Loop loop(learner, loader,
            {.loss =
                 [&](const int64_t& batch) {
                   seen.push_back(batch);
                   return mean(model(ones({1, 1})));
                 }},
            {.epochs = 3, .terminal = false});
  CHECK(loop.run() == Outcome::finished);
  CHECK(seen == std::vector<int64_t>{0, 10, 11, 20, 21, 22});
}

TEST_CASE("train: a backward pass that fails to begin counts no step inside it") {
  Rng rng(1);
  nn::Linear model(2, 1, rng);
  optim::Sgd optimizer(nn::named_parameters(model));
  Learner learner(model, optimizer, {.check_graph = false, .step_in_backward = true});
  CHECK_THROWS_AS(learner.backward(ones({1})), Error);
  learner.backward(sum(model(ones({1, 2}))));
  learner.step();
  CHECK(learner.steps() == 1);
}

TEST_CASE("train: an inner scope for signals changes nothing; the end of the outer one restores") {
  const auto before = std::signal(SIGTERM, SIG_DFL);
  CHECK_FALSE(interrupted());
  {
    InterruptScope outer;
    {
      InterruptScope inner;
      std::raise(SIGTERM);
      CHECK(interrupted());
    }
    CHECK(interrupted());
  }
  CHECK_FALSE(interrupted());
  const bool restored = std::signal(SIGTERM, before) == SIG_DFL;
  CHECK(restored);
}

TEST_CASE("train: the program's signal handler is restored with its flags and mask") {
  struct sigaction before = {}, own = {}, after = {};
  own.sa_sigaction = [](int, siginfo_t*, void*) {};
  own.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaddset(&own.sa_mask, SIGUSR1);
  REQUIRE(sigaction(SIGTERM, &own, &before) == 0);
  { InterruptScope scope; }
  REQUIRE(sigaction(SIGTERM, &before, &after) == 0);
  const bool same = after.sa_sigaction == own.sa_sigaction;
  CHECK(same);
  CHECK((after.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_RESTART)) == own.sa_flags);
  CHECK(sigismember(&after.sa_mask, SIGUSR1) == 1);
}

TEST_CASE("train: a signal that the process ignores stays ignored; others set the flag") {
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(ignored);
    const pid_t child = fork();
    if (child == 0) {
      for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
      std::signal(ignored, SIG_IGN);
      bool fine = true;
      {
        InterruptScope outer;
        InterruptScope inner;
        for (int i = 0; i < 3; ++i) std::raise(ignored);
        fine = !interrupted();
        std::raise(ignored == SIGINT ? SIGTERM : SIGINT);
        fine = fine && interrupted();
        std::raise(ignored);  // does not count as a second one
      }
      _exit(fine && std::signal(ignored, SIG_DFL) == SIG_IGN ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

namespace {

// The signal that ends a process that sends itself these two within a scope; 0: it is not ended.
int ended_by(int first, int second) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
    InterruptScope scope;
    std::raise(first);
    std::raise(second);
    _exit(interrupted() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  CHECK(WEXITSTATUS(status) == 0);
  return 0;
}

}  // namespace

TEST_CASE("train: a second SIGINT or SIGTERM ends the program at once, SIGHUP never") {
  CHECK(ended_by(SIGINT, SIGINT) == SIGINT);
  CHECK(ended_by(SIGINT, SIGTERM) == SIGTERM);
  CHECK(ended_by(SIGTERM, SIGINT) == SIGINT);
  CHECK(ended_by(SIGTERM, SIGTERM) == SIGTERM);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    CAPTURE(signal);
    CHECK(ended_by(SIGHUP, signal) == 0);
    CHECK(ended_by(signal, SIGHUP) == 0);
  }
}

TEST_CASE("train: any number of SIGHUPs stops a run like one signal, except under nohup") {
  const auto before = std::signal(SIGHUP, SIG_DFL);
  {
    InterruptScope scope;
    CHECK_FALSE(interrupted());
    std::raise(SIGHUP);
    CHECK(interrupted());
    std::raise(SIGHUP);  // one comes from the kernel, one from the shell
  }
  for (const int signal : {SIGINT, SIGTERM}) {
    InterruptScope scope;
    std::raise(SIGHUP);
    std::raise(signal);  // the end of a session sends both
    std::raise(SIGHUP);
    CHECK(interrupted());
  }
  const bool restored = std::signal(SIGHUP, SIG_IGN) == SIG_DFL;
  CHECK(restored);
  {
    InterruptScope scope;
    std::raise(SIGHUP);
    CHECK_FALSE(interrupted());
  }
  const bool ignored = std::signal(SIGHUP, before) == SIG_IGN;
  CHECK(ignored);
}

TEST_CASE("train: schedules by name and their warm-up") {
  CHECK(make_schedule({.warmup = 4}, 10)(0) == 0.25);
  CHECK(make_schedule({.name = "cosine", .warmup = 2}, 10)(1) == 1);
  CHECK(make_schedule({.name = "linear"}, 10)(5) == 0.5);
  CHECK(make_schedule({.name = "inverse-sqrt"}, 10)(3) == 0.5);
  CHECK(make_schedule({.name = "noam", .warmup = 4, .dim = 4}, 10)(3) == doctest::Approx(0.25));
  CHECK_THROWS_WITH_AS(make_schedule({.name = "cosine", .warmup = 100}, 20),
                       doctest::Contains("a warm-up of 100 steps"), Error);
  CHECK_THROWS_AS(make_schedule({.name = "cosinus"}, 20), Error);
  CHECK(fitting_warmup({.name = "cosine", .warmup = 100}, 20) == 5);
  CHECK(fitting_warmup({.name = "cosine", .warmup = 100}, 400) == 100);
  CHECK(fitting_warmup({.name = "noam", .warmup = 100}, 20) == 100);
  CHECK(depends_on_length("cosine"));
  CHECK_FALSE(depends_on_length("inverse-sqrt"));
}

TEST_CASE("train: the schedule plateau is a warm-up and options for LearnerOptions::plateau") {
  const optim::Schedule s = make_schedule({.name = "plateau", .warmup = 4}, 10);
  CHECK(s(0) == 0.25);
  CHECK(s(9) == 1);
  CHECK_FALSE(depends_on_length("plateau"));
  CHECK(make_plateau({.name = "cosine"}, false) == std::nullopt);
  const auto made = make_plateau({.name = "plateau", .plateau_patience = 3}, true);
  REQUIRE(made);
  CHECK(made->maximize);
  CHECK(made->patience == 3);
  CHECK(made->factor == 0.5);
  CHECK_FALSE(make_plateau({.name = "plateau"}, false)->maximize);
}

TEST_CASE("train: all schedules by name, for runs of any length") {
  for (const std::string& name : schedule_names(true))
    for (int64_t steps : {1, 2, 7, 1000}) {
      const optim::Schedule s = make_schedule({.name = name, .dim = 8}, steps);
      for (int64_t step = 0; step < steps + 2; ++step) {
        REQUIRE(std::isfinite(s(step)));
        REQUIRE(s(step) >= 0);
        REQUIRE(s(step) <= 1);
      }
    }
  CHECK(make_schedule({.name = "polynomial"}, 10)(5) == 0.25);
  CHECK(make_schedule({.name = "one-cycle", .warmup = 5}, 10)(4) == 1);
  CHECK(make_schedule({.name = "cyclic", .warmup = 3}, 10)(3) == 1);
  CHECK(make_schedule({.name = "cyclic", .warmup = 3}, 10)(6) == doctest::Approx(0.1));
  CHECK_THROWS_AS(make_schedule({.name = "one-cycle", .warmup = 20}, 20), Error);
  CHECK(fitting_warmup({.name = "one-cycle", .warmup = 100}, 20) == 5);
  for (const char* name : {"polynomial", "one-cycle", "cyclic", "triangle"})
    CHECK(depends_on_length(name));
  CHECK(schedule_names(false).size() + 1 == schedule_names(true).size());
}

TEST_CASE("train: the schedule triangle equals that of airbench94") {
  const optim::Schedule s = make_schedule({.name = "triangle"}, 476);
  for (int step = 0; step < 476; ++step) {  // get_lr of airbench94.py
    const double up = step / 109., down = (step - 109) / 367.;
    const double want = step < 109 ? 0.2 * (1 - up) + up : (1 - down) + 0.07 * down;
    REQUIRE(s(step) == doctest::Approx(want).epsilon(1e-12));
  }
  CHECK(make_schedule({.name = "triangle", .warmup = 4}, 10)(2) == doctest::Approx(0.6));
  CHECK(make_schedule({.name = "triangle"}, 3)(0) == 1);  // too short to rise
}

TEST_CASE("train: optimizers by name") {
  const NamedTensors p = {{"blocks.0.fc.weight", ones({2, 2}).set_requires_grad()}};
  for (const std::string& name : optimizer_names()) {
    auto optimizer = make_optimizer({.name = name, .lr = 0.25, .weight_decay = 0.5}, p);
    CHECK(optimizer->lr() == 0.25);
    CHECK(optimizer->weight_decay() == 0.5);
    p[0].second.set_grad(ones({2, 2}));
    optimizer->step();
    CHECK(optimizer->state_dict().size() >= 2);
  }
  CHECK_THROWS_WITH_AS(
      make_optimizer({.name = "muon"}, {NamedTensors{{"0.weight", p[0].second}}}),
      "muon: no parameter is a matrix or convolution in a list of blocks; take adamw", Error);
  CHECK(make_optimizer({.name = "adamw"}, p)->weight_decay() == 0.01);
  CHECK_THROWS_WITH_AS(make_optimizer({.name = "adma"}, p), doctest::Contains("there is no 'adma'"),
                       Error);
}

TEST_CASE("train: the state of a loop is restored from text bit for bit") {
  LoopState s{
      .batch = 7, .batches = 9, .progress = 3, .train_seconds = 1e-310, .evaluate_seconds = 0.1};
  s.means.add("loss", 0.1 + 0.2, 3);
  s.history.push_back({1, {{"train_loss", 1.0 / 3}, {"ppl", INFINITY}, {"bleu", kNan}}, 4, 5, 6});
  const LoopState t = loop_state_from_json(to_json(s));
  CHECK(t.batch == 7);
  CHECK(t.batches == 9);
  CHECK(t.progress == 3);
  CHECK(t.train_seconds == s.train_seconds);
  CHECK(t.means.entries().at(0).sum == 0.1 + 0.2);
  REQUIRE(t.history.size() == 1);
  CHECK(t.history[0]["train_loss"] == 1.0 / 3);
  CHECK(t.history[0]["ppl"] == INFINITY);
  CHECK(std::isnan(t.history[0]["bleu"]));
  CHECK(t.history[0].lr == 5);
  CHECK_THROWS_AS(loop_state_from_json("{}"), Error);
  CHECK_THROWS_AS(loop_state_from_json("[1"), Error);
  std::string fraction = to_json(s);
  fraction.insert(fraction.find("\"batch\":") + 8, "1e77,\"was\":");
  CHECK_THROWS_AS(loop_state_from_json(fraction), Error);
}

TEST_CASE("train: times and numbers for people") {
  CHECK(clock_time(0) == "0:00");
  CHECK(clock_time(125.4) == "2:05");
  CHECK(clock_time(3723) == "1:02:03");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-123) == "-123");
}

TEST_CASE("train: best epochs and log lines") {
  std::vector<EpochRecord> h = {{1, {{"loss", 2}, {"acc", 0.5}}},
                                {2, {{"loss", 1}, {"acc", 0.7}}},
                                {3, {{"loss", 1}, {"acc", 0.6}}}};
  CHECK(best_epoch(h, {"loss"}).epoch == 2);
  CHECK(best_epoch(h, {"acc", true}).epoch == 2);
  CHECK(best_epoch(h, {}).epoch == 3);
  h.push_back({4, {{"loss", kNan}}});
  CHECK(best_epoch(h, {"loss"}).epoch == 2);  // NaN is never better, and never in the way
  CHECK(best_epoch({h[3], h[0], h[2]}, {"loss"}).epoch == 3);
  CHECK(best_epoch({h[3], h[3]}, {"loss"}).epoch == 4);
  CHECK_THROWS_WITH_AS(h[0]["los"], doctest::Contains("there are loss, acc"), Error);
  CHECK(log_line(h[3], "images") ==
        R"({"epoch":4,"loss":null,"images_per_s":0.0,"lr":0.0,"seconds":0.0})");
}

TEST_CASE("train: a progress bar fits one line and keeps its most important parts") {
  const ProgressText t{.label = "epoch 1/6",
                       .share = 0.5,
                       .note = "loss 2.2997  top-1 18.8 %",
                       .speed = "559 images/s",
                       .seconds_left = 18,
                       .run_left = 754};
  CHECK(progress_line(t, 200) ==
        "epoch 1/6 [########........]  50%  loss 2.2997  top-1 18.8 %  559 images/s  epoch 0:18, "
        "all 12:34 left");
  CHECK(progress_line(t, 85) ==
        "epoch 1/6 [######.......]  50%  loss 2.2997  top-1 18.8 %  epoch 0:18, all 12:34 left");
  CHECK(progress_line(t, 70) ==
        "epoch 1/6  50%  loss 2.2997  top-1 18.8 %  epoch 0:18, all 12:34 left");
  CHECK(progress_line(t, 59) == "epoch 1/6  50%  loss 2.2997  top-1 18.8 %  all 12:34 left");
  CHECK(progress_line(t, 44) == "epoch 1/6  50%  loss 2.2997  all 12:34 left");
  CHECK(progress_line(t, 40) == "epoch 1/6  50%  loss 2.2997");
  CHECK(progress_line(t, 20) == "epoch 1/6  50%");
  CHECK(progress_line(t, 5) == "epoch");
  CHECK(progress_line({.label = "épo", .share = 1}, 2) == "ép");
  CHECK(progress_log_line(t) ==
        "epoch 1/6  50%  loss 2.2997  top-1 18.8 %  559 images/s  epoch 0:18, all 12:34 left");
  CHECK(progress_log_line(
            {.label = "testing", .share = 1, .speed = "5 images/s", .seconds_left = -1}) ==
        "testing 100%  5 images/s  ? left");
  for (int64_t columns = 1; columns < 120; ++columns) {
    const int64_t size = std::ssize(progress_line(t, columns));
    CHECK(size <= columns);
    if (columns >= 47) CHECK(progress_line(t, columns).find("12:34") != std::string::npos);
  }
}

TEST_CASE("train: the time left for a run includes the evaluation after each epoch") {
  const auto check_left = [](double seconds, const PartsToCome& to_come, double part, double run) {
    const SecondsLeft left = seconds_left(seconds, 6, 4, 10, to_come);  // 6 of 10 are done
    CHECK(left.part == part);
    CHECK(left.run == run);
  };
  check_left(6, {}, 4, -1);
  check_left(6, {.count = 3}, 4, 4 + 3 * 10);
  check_left(6, {.count = 3, .units = 5}, 4, 4 + 5 + 3 * (10 + 5));  // before the first evaluation
  check_left(12, {.count = 3, .units = 5}, 8, 8 + 10 + 3 * (20 + 10));
  check_left(12, {.count = 3, .seconds = 2, .units = 5}, 8, 8 + 2 + 3 * (20 + 2));
  check_left(6, {.count = 0, .seconds = 2}, 4, 4 + 2);   // also after the last epoch
  check_left(1.99, {.count = 3, .seconds = 2}, -1, -1);  // too early
  CHECK(seconds_left(9, 0, 10, 10, {.count = 1}).part == -1);
  // Too early, but the previous epoch took 2 s per unit.
  check_left(1.99, {.count = 3, .seconds = 2, .pace = 2}, 8, 8 + 2 + 3 * (20 + 2));
  check_left(6, {.count = 3, .pace = 2}, 4, 4 + 3 * 10);  // uses the speed of this epoch
  CHECK(seconds_left(0, 0, 10, 10, {.count = 1, .pace = 2}).part == 20);
  // A run resumed in mid-epoch: 2 units done now, 4 before.
  CHECK(seconds_left(2, 2, 4, 10, {.count = 1}).run == 4 + 10);
}

TEST_CASE("train: lines fit the terminal and lose only the speed and rate of an epoch") {
  const std::string epoch =
      "epoch 1/2  train loss 2.3232 top-1  9.90 %  test loss 2.3057 top-1 10.20 %  340 images/s  "
      "lr 0.000778  0:03";
  CHECK(fitted(epoch, 0) == epoch);
  CHECK(fitted(epoch, 120) == epoch);
  CHECK(fitted(epoch, 100) ==
        "epoch 1/2  train loss 2.3232 top-1  9.90 %  test loss 2.3057 top-1 10.20 %  340 images/s  "
        "0:03");
  CHECK(fitted(epoch, 80) ==
        "epoch 1/2  train loss 2.3232 top-1  9.90 %  test loss 2.3057 top-1 10.20 %  0:03");
  CHECK(fitted(epoch, 60) ==
        "epoch 1/2  train loss 2.3232 top-1  9.90 %\n"
        "           test loss 2.3057 top-1 10.20 %  0:03");
  CHECK(fitted("recipe   10 epochs of 32 steps, batch 32, lr 0.1", 40) ==
        "recipe   10 epochs of 32 steps, batch\n         32, lr 0.1");
  CHECK(fitted("         warm-up cut to five steps", 30) ==
        "         warm-up cut to five\n         steps");
  CHECK(fitted("\n  a sentence\n> b", 60) == "\n  a sentence\n> b");
  CHECK(fitted("folder   /a/path/longer/than/any/line", 20) ==
        "folder\n  /a/path/longer/than/any/line");
  CHECK(fitted("", 10) == "");
  const std::string prose = "speed 3/s  lr 5  éèàé word  and others, to the last one of them all";
  for (int64_t columns = 10; columns < 90; ++columns) {
    const std::string text = fitted(prose, columns);
    std::string words = text;
    for (char& c : words)
      if (c == '\n') c = ' ';
    CHECK(std::regex_replace(words, std::regex(" +"), " ") ==
          std::regex_replace(prose, std::regex(" +"), " "));
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      CHECK(std::count_if(text.begin() + static_cast<std::ptrdiff_t>(at),
                          text.begin() + static_cast<std::ptrdiff_t>(end),
                          [](char c) { return (c & 0xC0) != 0x80; }) <= columns);
      at = end + 1;
    }
  }
}

}  // namespace tern::training::test_train_parts
