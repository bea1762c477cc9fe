// The cost of a training step, before it computes or allocates anything: memory by kind, the peak,
// and by module the floating-point operations, saved memory and output shapes. The step runs twice
// in a ShapeOnlyScope, which makes every allocation of the real step in address space. summary()
// (train/summary.h) prints the cost for a model.
//
//   StepCost cost = step_cost({.loss = [&] { return cross_entropy(model(x), y); },
//                              .update = [&] { optimizer.step(); optimizer.zero_grad(); }},
//                             nn::state_dict(model));
//
// Operations are the multiplications and additions of matrix products, convolutions and attention:
// 2 m n k for a product, also of masked keys and of padding, whatever method computes it. A fused
// backward of attention includes its recomputed scores. All else counts as 0: elementwise ops,
// reductions, norms, Fourier transforms, factorisations, products with packed weights.
//
// Bytes are the sizes of the allocator's blocks (memory_stats().live). Not included: working memory
// of threads inside kernels (less than 1 MB each), the allocator's cache (at most a quarter of the
// peak and 16 MiB), and larger blocks that a full cache hands out if shapes vary from step to step.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/core/tape/op.h"

namespace tern {

/// A step, divided into parts by the kind of memory that they allocate. Each is called in a
/// ShapeOnlyScope.
struct TrainingStep {
  std::function<void()> setup = {};  ///< called once: makes optimizer, averages
  std::function<void()> batch = {};  ///< called once: makes the inputs and keeps them
  std::function<Tensor()> loss;      ///< the forward pass
  std::function<void(const Tensor& loss)> backward = {};  ///< default: tern::backward
  std::function<void()> update = {};                      ///< the optimizer; clears the gradients
  int64_t accumulate = 1;  ///< forward and backward passes per update
};

enum class MemoryKind {
  weights,      ///< parameters and buffers
  optimizer,    ///< kept from step to step: optimizer state, averages
  gradients,    ///< of the parameters
  batch,        ///< the inputs
  activations,  ///< made by forward, kept for backward
  temporaries,  ///< everything else
};
constexpr int kMemoryKinds = 6;
const char* name(MemoryKind kind);

/// Number of bytes of each kind.
struct MemoryByKind {
  std::array<int64_t, kMemoryKinds> bytes{};
  int64_t& operator[](MemoryKind k) { return bytes[static_cast<size_t>(k)]; }
  int64_t operator[](MemoryKind k) const { return bytes[static_cast<size_t>(k)]; }
  int64_t total() const;
};

/// A module by its parameters' names ("decoder.layers.2.linear1"), including submodules that have
/// no row of their own.
struct ModuleCost {
  std::string module;   ///< empty: ops outside of all modules
  std::string op = {};  ///< last op that took its parameters: "linear"; empty if none
  Shape output = {};    ///< result of that op
  Shape last = {};      ///< last result that is not a view of another
  int64_t forward_flops = 0, backward_flops = 0;  ///< per pass, see StepCost
  int64_t saved_bytes = 0;                        ///< bytes of activations
};

struct StepCost {
  MemoryByKind most;                ///< largest bytes of each kind on its own
  MemoryByKind at_peak;             ///< bytes at the peak
  std::string peak_op;              ///< "linear backward in decoder.layers.2.linear1"
  std::vector<ModuleCost> modules;  ///< in the order of the forward pass
  /// Operations of all forward and backward passes before an update. backward_flops includes
  /// recomputation and, if backward() steps the weights, their updates.
  int64_t forward_flops = 0, backward_flops = 0;
  int64_t update_flops = 0;  ///< of the update (Muon's products)

  int64_t peak() const { return at_peak.total(); }
};

/// `weights`: the model's, made inside the scope or before. The step changes the elements of no
/// real tensor. The caller must restore everything else that it changes (gradients of leaves,
/// generators). Throws the step's own errors.
StepCost step_cost(const TrainingStep& step, const NamedTensors& weights);

}  // namespace tern
