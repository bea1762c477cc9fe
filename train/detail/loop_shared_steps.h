// The steps of a loop that several processes share (parallel.h). Inside of train only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/dist/gradient_sum.h"
#include "tern/train/detail/outer_steps.h"
#include "tern/train/loop.h"

namespace tern::training {

/// The sum of all ranks' reports about a step.
struct SharedStep {
  StepRecord record = {};  ///< the loss over all ranks; the other numbers are this rank's
  double weight = 0, progress = 0;
  bool stop = false;  ///< a rank was interrupted
  bool late = false;  ///< a rank wants a checkpoint
};

class SharedSteps {
 public:
  /// From now on the feed takes this rank's part of each batch. Learner and feed must outlive it.
  /// Error if the ranks differ in a setting that decides how the loop trains.
  SharedSteps(const LoopOptions& options, Learner& learner, detail::Feed& feed);

  struct Place {
    int64_t done;  ///< steps taken in the loop's epoch
    bool last;     ///< the epoch ends with this step
    bool late;     ///< this rank wants a checkpoint
  };
  /// Takes a step with the batch that the feed has taken: gradients and update. Returns the steps
  /// that are now known to all ranks: this one, or, if ranks train apart, none or several. Adds the
  /// task's numbers of those steps to `means`.
  std::vector<SharedStep> take(const Place& place, Means& means);
  /// Returns the steps taken that not all ranks know yet, and adds to `means` as above. All ranks
  /// call it together, before a checkpoint.
  std::vector<SharedStep> catch_up(Means& means);
  /// Repeats the forward and backward passes of this rank's part of the last step.
  /// REQUIRES: the generators are in their state before that step.
  void run_again();

  /// Adds a part with the outer steps and the other ranks' states, if ranks train apart.
  void add_to(Checkpoint& checkpoint);
  /// Whether all ranks must take part in Checkpoint::state().
  bool gathers() const { return gathers_; }
  /// IoError if only one of the two has local steps: the checkpoint or this run.
  static void check_fits(const SafeTensors& state, const std::string& path, bool local_steps);
  /// Error if the ranks differ in weights, buffers, generators or the optimizer's state.
  void check_same_state();

 private:
  dist::BlockLoss block_loss(int64_t block, bool late);
  size_t item(int64_t block) const { return static_cast<size_t>(block - sum_->first_block()); }
  std::vector<SharedStep> take_apart(const Place& place, Means& means);
  std::vector<Rng> draw_apart();
  void tell();
  std::vector<SharedStep> hear(Means& means);

  Learner& learner_;
  detail::Feed& feed_;
  dist::World& world_;
  int64_t local_steps_;
  bool gathers_;
  std::optional<dist::GradientSum> sum_;  // set if all steps are shared
  std::optional<OuterSteps> outer_;       // set if ranks train apart
  std::vector<Rng*> generators_;
  // If ranks train apart: the steps that this rank has not sent yet, and its notes about them.
  std::vector<SharedStep> untold_;
  std::string notes_;
  // The steps whose notes the ranks are exchanging now.
  std::vector<SharedStep> told_;
  std::shared_ptr<std::vector<std::string>> texts_;
  dist::World::Ticket telling_;
};

}  // namespace tern::training
