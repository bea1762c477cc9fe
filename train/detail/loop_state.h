// What a loop must keep beside the learner to go on exactly. Inside of train only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/train/metrics.h"
#include "tern/train/run_folder.h"
#include "tern/train/run_log.h"

namespace tern::train {

struct LoopState {
  // Of the epoch in progress:
  int64_t batch = 0, batches = 0;  // done, and to be done
  double progress = 0;             // what Task::progress gave for them
  double train_seconds = 0, evaluate_seconds = 0;
  Means means = {};
  // The epochs before:
  std::vector<EpochRecord> history = {};
  // All along:
  StepLog steps = {};
  std::vector<int64_t> kept = {};  // epochs that have files of their own, which this run wrote
};

/// Adds the records of steps to the folder's log that are not among the `logged` first, which then
/// are all.
void append_steps(const RunFolder& folder, const StepLog& steps, size_t& logged);

/// As JSON; numbers come back bit for bit, infinite and NaN ones too.
std::string to_json(const LoopState& state);
/// Error if the text is not such a state.
LoopState loop_state_from_json(const std::string& json);

}  // namespace tern::train
