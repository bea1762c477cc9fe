// Lookahead (Zhang et al. 2019, arXiv:1907.08610): slow weights follow the trained weights, and
// every few steps the training continues from the slow ones.
#pragma once

#include "tern/optim/ema.h"

namespace tern::optim {

struct LookaheadOptions {
  int64_t every = 5;    ///< steps from one update to the next
  double decay = 0.95;  ///< of the slow weights, per step: their largest share is decay^every
  /// Number of steps of the run. The share grows with the cube of the steps taken and is largest at
  /// the end (Jordan 2024, arXiv:2404.00498): a run begins nearly without Lookahead. 0: the share
  /// is constant.
  int64_t total = 0;
};

/// After every `every` steps: slow <- s slow + (1 - s) weights, weights <- slow, with the share s =
/// decay^every (steps / total)^3. After the last step of the run: weights <- slow. Give it
/// parameters and buffers (nn::state_dict), as for Ema; the model's integers stay. The slow weights
/// start at those that the model has when it is made: load weights before, or call restart().
///
///   optim::Lookahead lookahead(nn::state_dict(model), {.total = 1000});
///   for (int64_t step = 1; step <= 1000; ++step) {
///     ... optimizer.step();
///     lookahead.after(step);
///   }
class Lookahead {
 public:
  explicit Lookahead(const NamedTensors& weights, const LookaheadOptions& options = {});
  /// Call it after each step, with the number of steps taken so far.
  void after(int64_t steps);
  /// Starts again at the weights as they are now.
  void restart() { slow_.restart(); }
  /// Share of the slow weights in an update after `steps` steps.
  double share(int64_t steps) const;
  /// The slow weights and the number of updates. A resume also needs the number of steps taken.
  NamedTensors state_dict() const { return slow_.state_dict(); }
  void load_state_dict(const NamedTensors& state) { slow_.load_state_dict(state); }

 private:
  LookaheadOptions options_;
  Ema slow_;
};

}  // namespace tern::optim
