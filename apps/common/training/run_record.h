// run.json in the folder of a run: its starts, settings and result, for its report and for
// comparisons of runs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/command_line/settings.h"
#include "tern/train/loop.h"

namespace tern::apps {

/// One start of the program: the first of the run, or one that resumed it.
struct RunStart {
  std::string command;       ///< quoted for a shell
  std::string version;       ///< of tern
  std::string date;          ///< "2026-03-01 14:05:09 UTC"
  std::string machine = {};  ///< from describe_machine(); empty in records of earlier versions
  int64_t ranks = 1;         ///< processes that trained together
};

/// Names and texts: {"model.dim", "256"}.
using SettingTexts = std::vector<std::pair<std::string, std::string>>;

struct RunRecord {
  std::string program;           ///< "translate"
  std::vector<RunStart> starts;  ///< in order; old folders may lack the first
  SettingTexts settings;
  training::Best best;  ///< the metric that selects the best epoch
  /// Metrics of the best epoch's weights on a test set that took no part in the choice; empty until
  /// they are measured.
  training::Metrics tested = {};
  // Unknown in records of earlier versions:
  int64_t epochs = 0;       ///< planned epochs; of a finished run those that it has
  int64_t weights = 0;      ///< number of trained weights
  std::string resume = {};  ///< the command that resumes the run
  SettingTexts flags = {};  ///< flags of settings: {"epoch_end.keep", "--keep"}

  /// The name of a setting for readers: its flag, or else its key.
  std::string flag_of(const std::string& setting) const;
};

/// The settings in a JSON object; members of inner objects are named "outer.inner".
SettingTexts settings_of(const std::string& json);

/// The flags of the settings that have one.
SettingTexts flags_of(const Settings& settings);

/// The folder's record; empty if there is none (runs of earlier versions). IoError if it is
/// damaged.
std::optional<RunRecord> load_run_record(const training::RunFolder& folder);

/// Adds this start of the program to the record, unless the run is finished. Returns the record.
/// `settings` is the run's configuration as JSON, `resume` the command that resumes it.
RunRecord record_start(const training::Loop& loop, const std::string& program,
                       const std::string& command, const std::string& settings, int64_t ranks = 1,
                       const SettingTexts& flags = {}, const std::string& resume = "");

/// Records the number of epochs of a finished run, which was an estimate before. Returns the
/// record.
RunRecord record_end(const training::Loop& loop);

/// Records the metrics of a run on its test set.
void record_tested(const training::Loop& loop, const training::Metrics& tested);

}  // namespace tern::apps
