// How far a training run is, and how that is written down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/train_cifar/report.h"

namespace tern::apps {

/// With the tensors, the whole state of a run.
struct RunProgress {
  int64_t step = 0;  ///< optimizer steps done; the place in the data follows from it
  // Of the epoch in progress:
  double loss_sum = 0;            ///< over the images seen
  int64_t seen = 0, correct = 0;  ///< images, and those whose likeliest class was the right one
  double train_seconds = 0, test_seconds = 0;
  // The epochs before:
  std::vector<EpochRecord> history = {};
};

/// The record with the highest test top-1, the first of equals. REQUIRES: there is one.
const EpochRecord& best_epoch(const std::vector<EpochRecord>& history);

/// As JSON; numbers come back bit for bit.
std::string progress_to_json(const RunProgress& progress);
/// Error if the text is not such a progress.
RunProgress progress_from_json(const std::string& json);

/// Line `index` of log.jsonl, without the line's end.
std::string log_line(const std::vector<EpochRecord>& history, size_t index);

}  // namespace tern::apps
