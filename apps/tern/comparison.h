// The page that compares runs side by side, and the command that writes it.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/command_line/command_line.h"
#include "tern/apps/common/training/run_record.h"
#include "tern/train/run_log.h"

namespace tern::apps::program {

struct Run {
  std::string name;  ///< the shortest unique end of its path: "gmlp-4m-2", "a/gmlp-4m"
  std::string path;
  RunRecord record;  ///< names no program in folders of earlier versions
  training::RunLog log;

  /// The best epoch by the record's metric, or the last one; nullptr if no epoch has ended.
  const training::EpochRecord* best_epoch() const;
};

/// Reads the folders in order; a run may still be in progress. Error: a folder is not that of a run
/// (it has no log.jsonl), or is named twice. IoError: a file in it is damaged.
std::vector<Run> load_runs(const std::vector<std::string>& folders);

/// The page as text, with a section per program and data: the results of every run in its best
/// epoch and on its test set, curves of the metrics that at least two runs (or the only run) have,
/// the settings that differ, and how the runs were started.
std::string comparison_page(const std::vector<Run>& runs);

/// Writes the page atomically. Error if the file exists and is not a page of `tern report`.
void write_comparison(const std::string& path, const std::vector<Run>& runs);

/// The flags of `tern report`, and the command.
struct ReportFlags {
  std::vector<std::string> runs;        ///< folders
  std::string out = "comparison.html";  ///< the page
};
Command report_command(ReportFlags& flags);

}  // namespace tern::apps::program
