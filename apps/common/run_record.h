// run.json in the folder of a run: how it was started and with which settings, for its report and
// for comparisons of runs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/settings.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// A start of the program: of the run, or to resume it.
struct RunStart {
  std::string command;  ///< as a shell takes it
  std::string version;  ///< of tern
  std::string date;     ///< "2026-03-01 14:05:09 UTC"
  std::string machine =
      {};             ///< as describe_machine() says it; empty in records of earlier versions
  int64_t ranks = 1;  ///< processes that trained together
};

/// Names and texts: {"model.dim", "256"}.
using SettingTexts = std::vector<std::pair<std::string, std::string>>;

struct RunRecord {
  std::string program;           ///< "translate"
  std::vector<RunStart> starts;  ///< in order; the first may be missing in a folder of old
  SettingTexts settings;
  training::Best best;  ///< what says which epoch is the best
  /// What the weights of the best epoch do on a test set that chose nothing; empty until then.
  training::Metrics tested = {};
  // Unknown in records of earlier versions:
  int64_t epochs = 0;       ///< that there are to be
  int64_t weights = 0;      ///< of the model, all that are trained
  std::string resume = {};  ///< the command that resumes it
  SettingTexts flags = {};  ///< of settings that have one: {"epoch_end.keep", "--keep"}

  /// What people call a setting: its flag, or else its name.
  std::string flag_of(const std::string& setting) const;
};

/// The command line as a shell takes it, words in quotes where they need them.
std::string command_line(int argc, const char* const* argv);

/// The settings in a JSON object; those of objects in it are called "outer.inner".
SettingTexts settings_of(const std::string& json);

/// The flags of the settings that have one.
SettingTexts flags_of(const Settings& settings);

/// The record of the folder; nothing if it has none (runs of earlier versions). IoError if it is
/// damaged.
std::optional<RunRecord> load_run_record(const training::RunFolder& folder);

/// Adds this start of the program to the record, unless the run is finished, and gives the record.
/// `settings` is the run's configuration as JSON, `resume` the command that resumes it.
RunRecord record_start(const training::Loop& loop, const std::string& program,
                       const std::string& command, const std::string& settings, int64_t ranks = 1,
                       const SettingTexts& flags = {}, const std::string& resume = "");

/// Writes down what a run reached on its test set.
void record_tested(const training::Loop& loop, const training::Metrics& tested);

}  // namespace tern::apps
