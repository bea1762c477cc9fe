// Runs as their folders keep them.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/run_record.h"
#include "tern/train/run_log.h"

namespace tern::apps::program {

struct Run {
  std::string name;  ///< as short as tells it from the others: "gmlp-4m-2", "a/gmlp-4m"
  std::string path;
  RunRecord record;  ///< without a program in a folder of an earlier version
  train::RunLog log;

  /// The best epoch, by the record, or the last one; nullptr if none is closed.
  const train::EpochRecord* best_epoch() const;
};

/// Reads the folders, in their order; a run at work too. Error: one is no folder of a run (it has
/// no log.jsonl), or comes twice. IoError: a file in one is damaged.
std::vector<Run> load_runs(const std::vector<std::string>& folders);

}  // namespace tern::apps::program
