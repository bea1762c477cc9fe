// The outer steps of ranks that train apart (Parallel::local_steps). Inside of train only.
//
// DiLoCo (Douillard et al. 2023, https://arxiv.org/abs/2311.08105, algorithm 1): each rank takes N
// inner steps with its own optimizer from the same weights. The mean of the differences to these
// weights is the gradient of one step of SGD with Nesterov momentum, the outer step. All ranks
// continue from its result. The inner optimizers keep their states.
//
// Additions to the paper: the mean weights each rank by the amount that it trained on. Frozen
// parameters become the mean over the ranks: the outer momentum would move them further. Running
// statistics (float buffers) become the mean over the ranks with the same weights. Counters
// (integer buffers) come from the last rank, whose part of a batch is never empty. Averaged weights
// (LearnerOptions::ema) follow each rank's own weights; at the end of an epoch they become their
// plain mean over the ranks.
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
  OuterSteps(const Parallel& options, Learner& learner);

  /// Call it before each inner step. In the first one of a round it takes the weights as the start
  /// of the round: the program may have loaded or changed them since the last outer step.
  /// REQUIRES: then all ranks have the same weights and buffers.
  void begin();
  /// Adds the weight of each rank's batch in an inner step.
  void count(const std::vector<double>& weights);
  /// Takes an outer step. All ranks take it together, and then have the same weights and buffers.
  void take(bool end_of_epoch);

  /// The state of all ranks, on rank 0; all ranks take part. Diverged if a tensor is not finite.
  NamedTensors state_dict();
  /// Error if the state has another number of ranks or of inner steps.
  void load_state_dict(const NamedTensors& state);

 private:
  dist::World& world_;
  Learner& learner_;
  int64_t local_steps_;
  NamedTensors parameters_;      // the model's
  NamedTensors start_;           // their values at the start of the round
  optim::Sgd sgd_;               // the outer optimizer, which updates start_
  std::vector<double> weights_;  // by rank: the weight of its batches in this round
  bool begun_ = false;           // whether this round has begun
};

}  // namespace tern::training
