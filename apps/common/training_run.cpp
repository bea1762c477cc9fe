#include "tern/apps/common/training_run.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>

#include "tern/apps/common/checkpoint.h"
#include "tern/apps/common/interrupt.h"
#include "tern/apps/common/progress.h"

namespace tern::apps {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSecondsBetweenCheckpoints = 300;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
 public:
  Run(Training& training, const RunFolder& folder) : training_(training), folder_(folder) {}

  int train_all() {
    folder_.write_log(training_.log_lines());
    save();
    while (!training_.finished()) {
      if (!train_epoch() || !training_.close_epoch()) return stop();
      // Weights were written first: a run that is killed in between repeats the epoch and writes
      // the same.
      folder_.append_log(training_.log_lines().back());
      save();
      say(training_.epoch_line());
    }
    return training_.finish() ? 0 : stop();
  }

  int64_t saved_step() const { return saved_step_; }

 private:
  bool train_epoch() {  // false where a signal stopped it
    Training::Status s = training_.status();
    Progress bar(fmt::format("epoch {}/{}", training_.epoch(), training_.epochs()), s.unit, s.total,
                 s.done);
    while (!training_.epoch_trained()) {
      if (interrupted()) return false;
      auto start = Clock::now();
      training_.train_step();
      training_.add_seconds(seconds_since(start));
      s = training_.status();
      bar.update(s.done, s.note);
      if (seconds_since(last_save_) > kSecondsBetweenCheckpoints) save();
    }
    return true;
  }

  int stop() {
    save();
    say(fmt::format("stopped in epoch {} after {} steps; to go on: --resume {}", training_.epoch(),
                    grouped(training_.step()), folder_.path));
    return kExitInterrupted;
  }

  void save() {
    save_checkpoint(folder_.checkpoint(), training_.state());
    last_save_ = Clock::now();
    saved_step_ = training_.step();
  }

  Training& training_;
  const RunFolder& folder_;
  Clock::time_point last_save_;
  int64_t saved_step_ = 0;
};

}  // namespace

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int run_training(const std::string& program, Training& training, const RunFolder& folder,
                 const Facts& facts) {
  for (const auto& [heading, text] : facts) say(fmt::format("{:8} {}", heading, text));
  say(fmt::format("{:8} {}", "folder", folder.path));
  catch_interrupts();
  Run run(training, folder);
  try {
    return run.train_all();
  } catch (const Diverged& e) {
    fmt::print(stderr,
               "{}: {}; {} keeps the state after step {}. A lower --lr, --warmup or --clip may "
               "help\n",
               program, e.what(), folder.checkpoint(), run.saved_step());
    return 1;
  }
}

}  // namespace tern::apps
