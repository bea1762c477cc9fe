// Options for several processes that train together in a loop (LoopOptions::parallel).
#pragma once

#include <cstdint>

#include "tern/dist/world.h"

namespace tern::training {

/// Several processes that share the steps of a loop (dist/world.h): each batch of the loader is cut
/// into blocks, and each rank loads and computes some of them (dist/gradient_sum.h). Weights,
/// losses and checkpoints have the same bits on any number of ranks up to `blocks`; without a
/// world, batches are not cut. Every rank makes the same model, loader and loop. Only rank 0 prints
/// and writes; all ranks read the folder and evaluate. A run may be resumed with another number of
/// ranks.
struct Parallel {
  dist::World* world = nullptr;  ///< nullptr: one process, and batches stay whole
  int64_t blocks = 8;            ///< blocks per batch
  /// The number of shared steps between comparisons of the ranks' weights, buffers, generators and,
  /// unless it is sharded, the optimizer's state. An Error names the ranks that differ. 0: never.
  int64_t check_every = 0;
  /// Each rank keeps a part of the optimizer's states (Learner::shard_optimizer), which saves
  /// memory. Bits and checkpoints are the same with and without it. Rank 0 has all states while it
  /// writes a checkpoint.
  bool shard_optimizer = false;
  /// For slow networks (DiLoCo, https://arxiv.org/abs/2311.08105): the number of steps in which
  /// ranks train apart before they exchange weights, instead of gradients in each step. 0: every
  /// step is shared.
  ///
  /// A batch is cut into one part per rank (`blocks` is not used): rank r of P trains on samples
  /// S r / P to S (r + 1) / P - 1 of S with its own optimizer, learning rate schedule and clipping.
  /// After local_steps steps, and at the end of each epoch, all ranks take an outer step: SGD with
  /// Nesterov momentum on the mean of the differences to the weights of the last outer step, in
  /// which each rank is weighted by the amount that it trained on. Then all ranks have the same
  /// weights. The outer step also averages the running statistics of batch norm and frozen
  /// parameters over the ranks, and at the end of an epoch the averaged weights (ema). Every 8
  /// steps ranks begin to send each other losses, metrics and whether to stop (some kilobytes);
  /// they receive them 8 steps later, or before the outer step. So other steps wait only if the
  /// network takes longer than 8 steps, and after a signal or an error on one rank there are at
  /// most 16 more steps.
  ///
  /// Bits depend on the number of ranks. A checkpoint may be taken after any step and holds the
  /// weights and optimizers of all ranks; resuming with another number of ranks or of local steps
  /// is an IoError. local_steps and shard_optimizer exclude each other.
  int64_t local_steps = 0;
  double outer_lr = 0.7, outer_momentum = 0.9;  ///< learning rate and momentum of outer steps
};

}  // namespace tern::training
