// What a training step costs, before anything of it is computed or allocated: memory by kind, the
// moment of the peak, and floating-point operations, saved memory and output shapes by module. The
// step runs twice in a ShapeOnlyScope: every allocation of the real step is made, of address space.
// summary() (train/summary.h) prints it for a model.
//
//   StepCost cost = step_cost({.loss = [&] { return cross_entropy(model(x), y); },
//                              .update = [&] { optimizer.step(); optimizer.zero_grad(); }},
//                             nn::state_dict(model));
//
// Bytes are those of the allocator's blocks (memory_stats().live). Not in it: working memory that
// threads take inside of a kernel (less than 1 MB each), what the allocator keeps for reuse (at
// most a quarter of the peak and 16 MiB), and that from a full cache, where shapes vary from step
// to step, it hands out larger blocks.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/core/tape/op.h"

namespace tern {

/// A step in the parts that its memory is made of. Each is called in a ShapeOnlyScope.
struct TrainingStep {
  std::function<void()> setup = {};  ///< once: optimizer, averages
  std::function<void()> batch = {};  ///< once: makes the inputs, and keeps them
  std::function<Tensor()> loss;      ///< the forward pass
  std::function<void(const Tensor& loss)> backward = {};  ///< left out: tern::backward
  std::function<void()> update = {};                      ///< the optimizer; clears the gradients
  int64_t accumulate = 1;  ///< forward and backward passes before an update
};

enum class MemoryKind {
  weights,      ///< parameters and buffers
  optimizer,    ///< what lives from step to step: an optimizer's state, averages
  gradients,    ///< of the parameters
  batch,        ///< the inputs
  activations,  ///< made by the forward pass and kept for the backward pass
  temporaries,  ///< all else
};
constexpr int kMemoryKinds = 6;
const char* name(MemoryKind kind);

/// Bytes of each kind.
struct MemoryByKind {
  std::array<int64_t, kMemoryKinds> bytes{};
  int64_t& operator[](MemoryKind k) { return bytes[static_cast<size_t>(k)]; }
  int64_t operator[](MemoryKind k) const { return bytes[static_cast<size_t>(k)]; }
  int64_t total() const;
};

/// A module as the names of parameters know it ("decoder.layers.2.linear1"), itself and what is
/// below it apart from that which has a row of its own.
struct ModuleCost {
  std::string module;   ///< empty: ops that belong to none
  std::string op = {};  ///< that its parameters went into last: "linear"; empty if there is none
  Shape output = {};    ///< of that op
  Shape last = {};      ///< of the last result that was no view of another
  int64_t forward_flops = 0, backward_flops = 0;  ///< of these passes, see StepCost
  int64_t saved_bytes = 0;                        ///< activations
};

struct StepCost {
  MemoryByKind most;                ///< the most of each kind by itself
  MemoryByKind at_peak;             ///< at the moment of the peak
  std::string peak_op;              ///< "linear backward in decoder.layers.2.linear1"
  std::vector<ModuleCost> modules;  ///< in the order in which the forward pass comes to them
  /// Of all passes before an update: what is done from the batch to the loss, and from there to the
  /// gradients, with what is computed again for them, and where backward() steps the weights with
  /// their updates.
  int64_t forward_flops = 0, backward_flops = 0;
  int64_t update_flops = 0;  ///< of the update: Muon's products

  int64_t peak() const { return at_peak.total(); }
};

/// `weights`: those of the model, made inside of the scope or not. What the step changes beside its
/// tensors' elements (gradients of leaves, generators) is the caller's to put back. Error as the
/// step's own.
StepCost step_cost(const TrainingStep& step, const NamedTensors& weights);

}  // namespace tern
