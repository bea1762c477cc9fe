// The steps of a loop that several processes share (Parallel in loop.h). Inside of train only.
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

/// What the ranks say together of a step.
struct SharedStep {
  StepRecord record = {};  ///< the loss is of all ranks, the rest of this one
  double weight = 0, progress = 0;
  bool stop = false;  ///< one of them was interrupted
  bool late = false;  ///< one of them said `late`
};

class SharedSteps {
 public:
  /// From here on the feed takes this rank's part of each batch. Learner and feed must outlive it.
  /// Error if ranks differ in what decides how the loop trains.
  SharedSteps(const LoopOptions& options, Learner& learner, detail::Feed& feed);

  struct Place {
    int64_t done;  ///< steps taken in the loop's epoch
    bool last;     ///< the epoch ends with this step
    bool late;     ///< this rank wants a checkpoint
  };
  /// A step with the batch that the feed has taken: gradients and update. Gives the steps of which
  /// all ranks have heard now: this one, or where ranks train apart none or several. Adds what the
  /// task counts in those to `means`.
  std::vector<SharedStep> take(const Place& place, Means& means);
  /// The steps taken of which not all ranks have heard yet; all ranks call it together. To be
  /// called before a checkpoint.
  std::vector<SharedStep> catch_up(Means& means);
  /// Forward and backward passes of this rank's part of the last step. REQUIRES: the generators are
  /// as they were before it.
  void run_again();

  /// Adds what the learner's parts of a checkpoint do not have.
  void add_to(Checkpoint& checkpoint);
  /// All ranks take part in Checkpoint::state().
  bool gathers() const { return gathers_; }
  /// IoError if a checkpoint is of local steps and these are not, or the other way round.
  static void check_fits(const SafeTensors& state, const std::string& path, bool local_steps);
  /// Error if what all ranks have in common differs.
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
  std::optional<dist::GradientSum> sum_;  // of shared steps,
  std::optional<OuterSteps> outer_;       // or of ranks that train apart
  std::vector<Rng*> generators_;
  // Steps of ranks that train apart. Those that the others do not know of, and what this rank says
  // of them:
  std::vector<SharedStep> untold_;
  std::string notes_;
  // Those of which the ranks are telling each other:
  std::vector<SharedStep> told_;
  std::shared_ptr<std::vector<std::string>> texts_;
  dist::World::Ticket telling_;
};

}  // namespace tern::training
