// What a training program does as an epoch ends: --patience, --keep and --schedule plateau.
#pragma once

#include <cstdint>
#include <string>

#include "tern/train/schedule.h"

namespace CLI {
class App;
}
namespace tern::train {
struct LoopOptions;
}

namespace tern::apps {

struct EpochEndOptions {
  int64_t patience = 0;          ///< train::LoopOptions
  int64_t keep = 0;              ///< train::LoopOptions
  int64_t plateau_patience = 2;  ///< train::ScheduleOptions
  double plateau_factor = 0.5;   ///< train::ScheduleOptions

  bool operator==(const EpochEndOptions&) const = default;
};

void add_epoch_end_flags(CLI::App& app, EpochEndOptions& options);

/// Error where --plateau-patience or --plateau-factor would change nothing.
void check_plateau_flags(const CLI::App& app, const std::string& schedule);
/// Error unless they are such options: they may come from a file.
void check_epoch_end(const EpochEndOptions& options);
/// Error where an epoch is to be judged by held-out data and nothing is `held_out`. `remedy` is the
/// flag that holds data out.
void check_held_out(const EpochEndOptions& options, const std::string& schedule, bool held_out,
                    const char* remedy);

/// Gives a schedule, or a loop, what the options say of it.
train::ScheduleOptions with_plateau(train::ScheduleOptions schedule,
                                    const EpochEndOptions& options);
void set_epoch_end(train::LoopOptions& loop, const EpochEndOptions& options);

/// ", patience 3, keeps 2 epochs"; empty where they are the defaults.
std::string describe_epoch_end(const EpochEndOptions& options, const std::string& schedule);

}  // namespace tern::apps
