// Lookahead (Zhang et al. 2019, arXiv:1907.08610): slow weights follow the trained ones, and from
// time to time the training goes on from them.
#pragma once

#include "tern/optim/ema.h"

namespace tern::optim {

struct LookaheadOptions {
  int64_t every = 5;    ///< steps from one update to the next
  double decay = 0.95;  ///< of the slow weights a step: decay^every is their largest share
  /// Length of the run. The share grows with the cube of the steps taken and is largest at the end
  /// (Jordan 2024, arXiv:2404.00498): a run begins nearly without Lookahead. 0: it does not grow.
  int64_t total = 0;
};

/// After every so many steps slow <- s slow + (1 - s) weights, weights <- slow, with the share s =
/// decay^every (steps / total)^3. After the last step of all, weights <- slow. Give it parameters
/// and buffers (nn::state_dict), as Ema; integers are the trained ones.
///
///   optim::Lookahead lookahead(nn::state_dict(model), {.total = 1000});
///   for (int64_t step = 1; step <= 1000; ++step) {
///     ... optimizer.step();
///     lookahead.after(step);
///   }
class Lookahead {
 public:
  explicit Lookahead(const NamedTensors& weights, const LookaheadOptions& options = {});
  /// `steps` have been taken.
  void after(int64_t steps);
  /// Share of the slow weights in the update after so many steps.
  double share(int64_t steps) const;
  /// The slow weights, and the number of updates. What comes next depends on the number of steps
  /// beside it.
  NamedTensors state_dict() const { return slow_.state_dict(); }
  void load_state_dict(const NamedTensors& state) { slow_.load_state_dict(state); }

 private:
  LookaheadOptions options_;
  Ema slow_;
};

}  // namespace tern::optim
