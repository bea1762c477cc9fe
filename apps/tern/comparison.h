// The page that sets runs side by side, and the program that writes it.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/command_line.h"
#include "tern/apps/common/run_record.h"
#include "tern/train/run_log.h"

namespace tern::apps::program {

struct Run {
  std::string name;  ///< as short as tells it from the others: "gmlp-4m-2", "a/gmlp-4m"
  std::string path;
  RunRecord record;  ///< without a program in a folder of an earlier version
  training::RunLog log;

  /// The best epoch, by the record, or the last one; nullptr if none is closed.
  const training::EpochRecord* best_epoch() const;
};

/// Reads the folders, in their order; a run at work too. Error: one is no folder of a run (it has
/// no log.jsonl), or comes twice. IoError: a file in one is damaged.
std::vector<Run> load_runs(const std::vector<std::string>& folders);

/// The page as text, in a section for each program and data: what every run reached in its best
/// epoch and on its test set, curves of what at least two of them (or the only one) have measured,
/// the settings that differ, and how the runs were started.
std::string comparison_page(const std::vector<Run>& runs);

/// Writes the page, whole or not at all. Error if the file exists and is no such page.
void write_comparison(const std::string& path, const std::vector<Run>& runs);

/// The flags of `tern report`, and the program.
struct ReportFlags {
  std::vector<std::string> runs;        ///< folders
  std::string out = "comparison.html";  ///< the page
};
Program tern_program(ReportFlags& flags);

}  // namespace tern::apps::program
