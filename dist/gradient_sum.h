// Data parallel training with the same bits on any number of ranks.
//
// A step's batch is cut into a fixed number of blocks. Each rank computes the gradients of a run of
// neighbouring blocks. The gradients of all blocks are added in one fixed binary tree over the
// blocks, whichever ranks have them. So weights and losses depend on the number of blocks, but not
// on the number of ranks (1 to `blocks`) or threads.
//
//   dist::World world;
//   dist::GradientSum sum(world, model, {.blocks = 8});
//   for (int64_t step = 0; step < 1000; ++step) {
//     double loss = sum.backward([&](int64_t block) {
//       Batch b = batch(step, block);        // called for this rank's blocks only
//       return dist::BlockLoss{cross_entropy(model(b.x), b.y), double(b.y.numel())};
//     });
//     learner.step();                        // or optimizer.step(): every rank takes the same step
//   }
//
// Blocks and the model:
// - The loss of a block is a mean over the block. The step's loss is the mean over all blocks,
//   weighted by BlockLoss::weight (pictures, tokens): never a mean of means.
// - Dropout draws from a separate generator for each step and block.
// - Batch norm normalises by the statistics of the block. Every block updates the running
//   statistics from those before the step, and the step takes the mean of the changes: one update
//   per step. The same holds for every float buffer: give it values of the size that it will have,
//   or infinity, since a change from 1e10 to 1 has lost its digits. A buffer of integers may count
//   steps: it is an Error if two blocks leave different integers in it.
//
// Communication overlaps with backward: in the last of its blocks, a rank sends a bucket as soon
// as the gradients of its parameters are complete, last parameters first. World::traffic() gives
// the share of the communication that is hidden.
//
// Processors with AVX2 and with AVX-512 compute the same bits and may work together. Where BLAS
// computes f32 products (core/base/products.h), all ranks need the same vector instructions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/io/state.h"
#include "tern/core/tensor/tensor.h"
#include "tern/dist/world.h"
#include "tern/nn/module_ref.h"

namespace tern::dist {

/// The mean loss over a block, and the weight of the block. An undefined loss means an empty block,
/// which adds nothing (the last batch of an epoch may have some).
struct BlockLoss {
  Tensor loss = {};
  double weight = 1;
  std::string note = {};  ///< any text of the program, sent to all ranks: GradientSum::notes()
};

struct GradientSumOptions {
  int64_t blocks = 8;  ///< blocks per step; at least one per rank
  /// Gradients are sent in pieces of about this size, the last ones in smaller pieces.
  int64_t bucket_bytes = int64_t{8} << 20;
  /// Number of steps between comparisons of the ranks' weights, buffers and generators; 0: never.
  int64_t check_every = 0;
  /// Further tensors to compare, such as the optimizer's state.
  std::function<NamedTensors()> check_also = {};
};

/// The buckets of a step's gradients.
struct BucketCount {
  int64_t all = 0;
  int64_t early = 0;  ///< those that this rank began to send during its last backward pass
};

class GradientSum {
 public:
  /// World and model must outlive it. All ranks make it at the same point of the program. Error if
  /// they differ in options, in names, shapes, types or elements of weights and buffers, in
  /// generators, or in the code that computes f32 products.
  GradientSum(World& world, nn::ModuleRef model, GradientSumOptions options = {});

  /// This rank's blocks: first_block() to end_block() - 1.
  int64_t first_block() const;
  int64_t end_block() const;

  /// Calls loss(block) for each of this rank's blocks in their order and sets the gradient of every
  /// parameter to that of the step's loss. Returns the step's loss. Parameters that no block's loss
  /// depends on have no gradient. Error if all blocks are empty, a weight is not positive, a loss
  /// is not finite or unfreezes a parameter, or two blocks leave different integers in a buffer;
  /// then weights, buffers and generators are as before. It is also an Error if a comparison is due
  /// (GradientSumOptions::check_every) and a rank differs.
  double backward(const std::function<BlockLoss(int64_t block)>& loss);
  /// The notes of all blocks of the last step, on every rank.
  const std::vector<std::string>& notes() const { return notes_; }
  /// The sum of the weights of all blocks of the last step.
  double weight() const { return weight_; }
  /// The buckets of the last step.
  BucketCount buckets() const { return bucket_count_; }

  /// After a resume: the number of steps taken before, for errors and check_every.
  void set_steps(int64_t steps) { steps_ = steps; }

  /// Sets the model's generators to their state before this block of the last step, to repeat it.
  void set_generators(int64_t block);

  /// Error on every rank if the ranks' weights, buffers, generators or tensors of check_also
  /// differ. It names the first tensor that differs and the ranks that differ from the majority.
  void check_same_state();

 private:
  struct Step;

  void restore();

  World& world_;
  nn::ModuleRef model_;
  GradientSumOptions options_;
  NamedTensors parameters_, buffers_, counts_;  // counts_: integer buffers
  std::vector<Rng*> generators_;
  // The step in progress:
  std::vector<Rng> generators_before_, step_generators_;
  std::vector<Tensor> buffers_before_, counts_before_;
  // The last step:
  std::vector<std::string> notes_;
  double weight_ = 0;
  BucketCount bucket_count_;
  int64_t steps_ = 0;  // steps taken
};

}  // namespace tern::dist
