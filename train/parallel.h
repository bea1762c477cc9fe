// How several processes train together in a loop (LoopOptions::parallel).
#pragma once

#include <cstdint>

#include "tern/dist/world.h"

namespace tern::training {

/// Several processes that share the steps of a loop (dist/world.h): each batch of the loader is cut
/// into blocks, and a rank makes and computes some of them (dist/gradient_sum.h). Weights, losses
/// and checkpoints have the same bits on any number of ranks up to `blocks`; without a world,
/// blocks play no part. Every rank makes the same model, loader and loop. Rank 0 alone prints and
/// writes; all ranks read the folder, and evaluate. A run may go on with another number of ranks.
struct Parallel {
  dist::World* world = nullptr;  ///< none: one process, and batches stay whole
  int64_t blocks = 8;            ///< of a batch
  /// Compares the ranks' weights, buffers, generators and, unless that is sharded, the optimizer's
  /// state after every so many shared steps: an Error names the ranks that drifted. 0: never.
  int64_t check_every = 0;
  /// Each rank keeps a part of the optimizer's states (Learner::shard_optimizer): the same bits and
  /// the same checkpoints, with or without it, for less memory. Rank 0 has all states while it
  /// writes a checkpoint.
  bool shard_optimizer = false;
  /// For slow networks (DiLoCo, https://arxiv.org/abs/2311.08105): ranks train apart for so many
  /// steps and exchange weights then, not gradients in each step. 0: every step is shared.
  ///
  /// A batch is cut into one part for each rank (`blocks` plays no part): rank r of P trains on
  /// samples S r / P to S (r + 1) / P - 1 of S with its own optimizer, learning rate schedule and
  /// clipping. After local_steps steps, and at the end of each epoch, all ranks take an outer step:
  /// SGD with Nesterov momentum on the mean of the differences to the weights of the last outer
  /// step, each rank counted by what it trained on. Then all ranks have the same weights. Running
  /// statistics of batch norm are the ranks' mean from there, averaged weights (ema) at the end of
  /// an epoch. Every 8 steps ranks begin to tell each other losses, metrics and whether to stop
  /// (some kilobytes); they hear it 8 steps later, or before the outer step. So a step between
  /// waits only where the network takes longer than 8 steps, and after a signal or an error on one
  /// rank there are 16 more steps at most.
  ///
  /// Bits depend on the number of ranks. A checkpoint may be taken after any step and holds the
  /// weights and optimizers of all ranks; a run goes on with the same number of ranks and of local
  /// steps, else it is an IoError. It does not go together with shard_optimizer.
  int64_t local_steps = 0;
  double outer_lr = 0.7, outer_momentum = 0.9;  ///< of the outer steps
};

}  // namespace tern::training
