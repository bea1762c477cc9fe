// The steps of a loop that several processes share (Parallel in loop.h). Inside of train only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/dist/gradient_sum.h"
#include "tern/train/detail/outer_steps.h"
#include "tern/train/loop.h"

namespace tern::train {

class SharedSteps {
 public:
  /// From here on the feed takes this rank's part of each batch. Learner and feed must outlive it.
  SharedSteps(const Parallel& options, Learner& learner, detail::Feed& feed);

  /// What the ranks say together.
  struct Step {
    double loss = 0, weight = 0, progress = 0;
    bool stop = false;  ///< one of them was interrupted
    bool late = false;  ///< one of them said `late`
  };
  struct Place {
    int64_t batch, batches;  ///< of the epoch: done, and to be done
    bool late;
  };
  /// A step with the batch that the feed has taken: gradients and update. Adds what the task counts
  /// to `means`.
  Step take(const Place& place, Means& means);
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
  Step take_apart(const Place& place, Means& means);
  std::vector<Rng> draw_apart();

  Learner& learner_;
  detail::Feed& feed_;
  dist::World& world_;
  int64_t local_steps_;
  bool gathers_;
  std::optional<dist::GradientSum> sum_;  // of shared steps,
  std::optional<OuterSteps> outer_;       // or of ranks that train apart
  std::vector<Rng*> generators_;
};

}  // namespace tern::train
