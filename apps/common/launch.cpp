#include "tern/apps/common/launch.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>

#include "tern/core/base/error.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps {

namespace fs = std::filesystem;

void make_absolute(std::string& path) {
  if (!path.empty()) path = fs::absolute(path).string();
}

void check_new_folder(const std::string& out) {
  std::error_code error;
  fs::file_status status = fs::status(out, error);
  check(!fs::exists(status) || fs::is_directory(status), "--out {}: this is not a folder", out);
  check(!train::RunFolder{out}.holds_run(),
        "--out {0}: the folder holds a run already; go on with it by --resume {0}, or choose "
        "another",
        out);
}

train::RunFolder make_run_folder(const std::string& out, const std::string& name) {
  if (out.empty()) return train::make_new_folder("runs/" + name);
  check_new_folder(out);
  train::RunFolder folder{out};
  folder.make();
  return folder;
}

SafeTensors load_resumed(const train::RunFolder& folder) {
  check(fs::exists(folder.checkpoint()), "--resume {}: there is no {}", folder.path,
        folder.checkpoint());
  return train::load_checkpoint(folder.checkpoint());
}

int64_t resumed_epochs(const std::string& schedule, int64_t started_with, int64_t given) {
  if (given == 0 || given == started_with) return started_with;
  check(!train::depends_on_length(schedule),
        "--epochs {}: the {} schedule of this run was made for {} epochs; for another number every "
        "step so far would have had another rate. Start a new run",
        given, schedule, started_with);
  return given;
}

void fit_warmup(train::ScheduleOptions& schedule, int64_t steps, Facts& facts) {
  const int64_t fitting = train::fitting_warmup(schedule, steps);
  if (fitting == schedule.warmup) return;
  facts.emplace_back("", fmt::format("warm-up cut from {} to {} steps, because the run has {}",
                                     schedule.warmup, fitting, steps));
  schedule.warmup = fitting;
}

int run_loop(const std::string& program, train::Loop& loop, const Facts& facts,
             const std::function<bool()>& finish) {
  for (const auto& [heading, text] : facts) train::say(fmt::format("{:8} {}", heading, text));
  train::say(fmt::format("{:8} {}", "folder", loop.folder().path));
  train::InterruptScope signals;
  try {
    if (loop.run() == train::Outcome::interrupted) return train::kExitInterrupted;
    if (finish()) return 0;
    train::say(fmt::format("stopped; to go on: --resume {}", loop.folder().path));
    return train::kExitInterrupted;
  } catch (const train::Diverged& e) {
    fmt::print(stderr, "{}: {}. A lower --lr, --warmup or --clip may help\n", program, e.what());
    return 1;
  }
}

}  // namespace tern::apps
