#include "tern/apps/common/epoch_end.h"

#include <fmt/format.h>

#include "tern/apps/common/config_checks.h"
#include "tern/apps/common/flags.h"
#include "tern/core/base/error.h"
#include "tern/train/loop.h"

namespace tern::apps {

void add_epoch_end_flags(CLI::App& app, EpochEndOptions& o) {
  const Bounds any_count{.low = 0, .high = 1e9};
  add_number(app, "--patience", o.patience,
             "end the run after N epochs in a row that were no better on held-out data; 0: never",
             any_count);
  add_number(app, "--keep", o.keep,
             "the last N epochs keep checkpoint and weights in files of their own; 0: none does",
             any_count);
  add_number(app, "--plateau-patience", o.plateau_patience,
             "of --schedule plateau: epochs no better on held-out data that are let pass",
             any_count);
  add_number(app, "--plateau-factor", o.plateau_factor,
             "of --schedule plateau: after one more the rate is multiplied by this",
             {.low = 0, .high = 0.999999, .open_low = true});
}

void check_plateau_flags(const CLI::App& app, const std::string& schedule) {
  for (const char* flag : {"--plateau-patience", "--plateau-factor"})
    check(schedule == "plateau" || app.count(flag) == 0,
          "{} would change nothing: --schedule is {}", flag, schedule);
}

void check_epoch_end(const EpochEndOptions& o) {
  check_any_count("patience", static_cast<double>(o.patience));
  check_any_count("keep", static_cast<double>(o.keep));
  check_any_count("plateau_patience", static_cast<double>(o.plateau_patience));
  check(o.plateau_factor > 0 && o.plateau_factor < 1, "plateau_factor is {:g}; above 0 and below 1",
        o.plateau_factor);
}

void check_held_out(const EpochEndOptions& o, const std::string& schedule, bool held_out,
                    const char* remedy) {
  check(held_out || o.patience == 0,
        "--patience {} needs held-out data to judge an epoch by, and nothing is held out; give {}",
        o.patience, remedy);
  check(held_out || schedule != "plateau",
        "--schedule plateau needs held-out data to judge an epoch by, and nothing is held out; "
        "give {}",
        remedy);
}

train::ScheduleOptions with_plateau(train::ScheduleOptions schedule, const EpochEndOptions& o) {
  schedule.plateau_patience = o.plateau_patience;
  schedule.plateau_factor = o.plateau_factor;
  return schedule;
}

void set_epoch_end(train::LoopOptions& loop, const EpochEndOptions& o) {
  loop.patience = o.patience;
  loop.keep = o.keep;
}

std::string describe_epoch_end(const EpochEndOptions& o, const std::string& schedule) {
  std::string s;
  if (schedule == "plateau")
    s += fmt::format(", rate times {:g} after {} epoch{} no better", o.plateau_factor,
                     o.plateau_patience + 1, o.plateau_patience == 0 ? "" : "s");
  if (o.patience > 0) s += fmt::format(", patience {}", o.patience);
  if (o.keep > 0) s += fmt::format(", keeps {} epoch{}", o.keep, o.keep == 1 ? "" : "s");
  return s;
}

}  // namespace tern::apps
