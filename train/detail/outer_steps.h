// The outer steps of ranks that train apart (Parallel::local_steps). Inside of train only.
//
// DiLoCo (Douillard et al. 2023, https://arxiv.org/abs/2311.08105, algorithm 1): each rank takes N
// inner steps with its own optimizer from the same weights; the mean of the differences to these
// weights is the gradient of one step of SGD with Nesterov momentum, the outer step, whose result
// all ranks go on from. Inner optimizers keep their states.
//
// What is here beyond the paper: the mean counts each rank by what it trained on. Running
// statistics (float buffers) are the ranks' mean by the same weights. Counters (integer buffers)
// are those of the last rank, whose part of a batch is never empty. Averaged weights
// (LearnerOptions::ema) follow each rank's own weights; at an epoch's end they are the plain mean
// of all ranks'.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/dist/world.h"
#include "tern/optim/sgd.h"
#include "tern/train/learner.h"
#include "tern/train/parallel.h"

namespace tern::training {

class OuterSteps {
 public:
  /// REQUIRES: the ranks' weights and buffers are the same.
  OuterSteps(const Parallel& options, Learner& learner);

  /// What each rank trained on in an inner step.
  void count(const std::vector<double>& weights);
  /// An outer step. All ranks take it together, and then have the same weights and buffers.
  void take(bool end_of_epoch);

  /// The state of all ranks on rank 0; all ranks take part. Diverged if something is not finite.
  NamedTensors state_dict();
  /// Error if the state is that of another number of ranks or of inner steps.
  void load_state_dict(const NamedTensors& state);

 private:
  dist::World& world_;
  Learner& learner_;
  int64_t local_steps_;
  NamedTensors parameters_;      // of the model
  NamedTensors start_;           // where the round's inner steps began
  optim::Sgd sgd_;               // steps these
  std::vector<double> weights_;  // of the ranks in this round
};

}  // namespace tern::training
