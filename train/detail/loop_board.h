// The event files that a loop writes for TensorBoard. Inside of train only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/train/loop.h"
#include "tern/train/metrics.h"
#include "tern/train/run_log.h"
#include "tern/train/tensorboard.h"

namespace tern::training {

/// Writes "step/..." for the steps of the log, "epoch/..." for an epoch's metrics, and one
/// histogram per parameter for the weights at the end of an epoch ("weights/...") and the gradients
/// of its last step ("gradients/...").
class LoopBoard {
 public:
  /// For a run that has taken `steps` steps: hides the records of later steps in older files. If
  /// the last step ended an epoch that is not closed yet, `unclosed` is the log of steps: then the
  /// records of that step are hidden, too, and its record is written again.
  LoopBoard(const std::string& folder, int64_t steps, const StepLog* unclosed);

  void add(const StepRecord& step);
  /// While it lives, it writes the gradients of the learners as histograms.
  class Watch {
   public:
    /// For step number `steps` + 1. Does nothing if `board` is nullptr.
    Watch(LoopBoard* board, const std::vector<NamedLearner>& learners, int64_t steps);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    const std::vector<NamedLearner>& learners_;
    std::vector<Learner::GradientHook> before_;  // by learner: its earlier hook, called first
  };
  void add(const EpochRecord& epoch, const std::string& unit,
           const std::vector<NamedLearner>& learners);

  EventWriter& events() { return events_; }

 private:
  EventWriter events_;
};

}  // namespace tern::training
