// What a loop writes for TensorBoard by itself. Inside of train only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/train/loop.h"
#include "tern/train/metrics.h"
#include "tern/train/run_log.h"
#include "tern/train/tensorboard.h"

namespace tern::training {

/// "step/..." for the steps of the log; "epoch/..." for an epoch's metrics; "weights/..." at its
/// end and "gradients/..." of its last step, a histogram a parameter.
class LoopBoard {
 public:
  /// Of a run that has taken `steps` steps: what files in the folder have of later ones is hidden.
  /// `unclosed` is its log where the last step ended an epoch that is still to be closed: what is
  /// there of that step is hidden too, and its record written again.
  LoopBoard(const std::string& folder, int64_t steps, const StepLog* unclosed);

  void add(const StepRecord& step);
  /// While it lives, the gradients of the step are kept for the epoch's end.
  class Watch {
   public:
    /// For the step after `steps` steps. Without a board it does nothing.
    Watch(LoopBoard* board, const std::vector<NamedLearner>& learners, int64_t steps);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    const std::vector<NamedLearner>& learners_;
    std::vector<Learner::GradientHook> before_;  // by learner; they are called first
  };
  void add(const EpochRecord& epoch, const std::string& unit,
           const std::vector<NamedLearner>& learners);

  EventWriter& events() { return events_; }

 private:
  EventWriter events_;
};

}  // namespace tern::training
