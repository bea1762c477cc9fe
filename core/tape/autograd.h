// Gradients as a user sees them. Operations on tensors that require a gradient are recorded on a
// tape; backward() and grad() run it from the newest op to the oldest. Nothing here recurses: a
// chain of a million ops is as good as a chain of ten.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

class Rng;

/// Whether operations are recorded in this thread.
bool grad_enabled();

/// While it lives, nothing is recorded in this thread.
///
/// In-place operations are never recorded. Outside of a NoGradGuard they are therefore refused
/// where a gradient would go wrong: on tensors that require a gradient, on whatever shares elements
/// with one (views, detach()), and with operands that require one. Inside of it all is allowed. In
/// both cases a write to what an op has saved is found by backward(), as an error.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool before_;
};

/// While it lives, operations are recorded again inside a NoGradGuard.
class EnableGradGuard {
 public:
  EnableGradGuard();
  ~EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  bool before_;
};

struct BackwardOptions {
  Tensor gradient = {};       ///< d(something) / d(loss); needed unless loss has one element
  bool retain_graph = false;  ///< keep what the nodes saved, to run backward again
  /// Called for every leaf that the loss depends on, once, as soon as its grad() is complete:
  /// nothing that is still to run reads the leaf or adds to its gradient. The leaf may be written
  /// to and its gradient freed there and then: an optimizer that steps inside backward, buckets of
  /// gradients for several machines, a log. (What reads its elements by another way, an op that
  /// saved w.detach(), is not known of: if it runs later, it finds them written to, an Error.) No
  /// gradients are recorded in it; what it throws leaves backward.
  std::function<void(const Tensor& leaf)> on_ready = {};
};

/// Adds d(loss) / d(leaf) to the grad() of every leaf that loss depends on.
///
/// Several threads may do so for the same leaves at a time, each with a graph of its own: nothing
/// is lost, and gradients are added in the order in which they come (so their last bits may differ
/// from run to run). While a pass with on_ready is at work, a pass of another thread that comes to
/// one of its leaves is an Error.
void backward(const Tensor& loss, const BackwardOptions& options = {});

struct GradOptions {
  bool create_graph = false;  ///< record the backward pass too, for higher derivatives
  bool retain_graph = false;  ///< implied by create_graph
  bool allow_unused = false;  ///< inputs that outputs do not depend on get an undefined gradient
  std::vector<Tensor> gradients = {};  ///< one per output; needed where one has several elements
};

/// d(sum of outputs) / d(input) for every input, leaf or not; leaves' grad() stays as it is. That
/// two threads ask for one leaf's at a time is an Error.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// The leaves that `output` depends on, in the order the tape reaches them.
std::vector<Tensor> leaves(const Tensor& output);

struct CheckpointOptions {
  /// Generators that fn hands to threads of its own. They must live until backward. Those that fn
  /// draws from in the calling thread need not be named.
  std::vector<Rng*> rngs = {};
};

/// fn(inputs) without keeping its intermediate results: fn runs again during backward.
/// Gradients reach the inputs and all else that fn uses: parameters, results that it captures.
///
/// fn is copied and must give the same again. Capture by value what changes until backward, the
/// variable of a loop above all, and by reference only what lives until then (a module):
///
///   for (size_t i = 0; i < blocks.size(); ++i)  // not [&]: i is gone by then
///     x = checkpoint([&blocks, i](std::span<const Tensor> in) { return blocks[i](in[0]); }, {x});
///
/// Random numbers (dropout) are noted in the first pass and handed out again in the second,
/// wherever the generators are by then; the generators themselves move on once. An fn that draws
/// more or fewer numbers than before, gives another shape or uses other parameters is an Error.
/// What fn writes, such as the running statistics of a batch norm, it writes twice.
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  const std::vector<Tensor>& inputs, const CheckpointOptions& options = {});

/// While it lives, results in this thread that are cheap to make again are not kept for the
/// backward pass: those of layer_norm, rms_norm and group_norm, of linear with an activation whose
/// gradient keeps its input (gelu, silu) and without a residual, and of fused formulas whose
/// gradients keep all of their inputs (a gate's product, SwiGLU). Backward makes them again,
/// with the same bits, from what these ops keep for their own gradients, when the first op asks for
/// them. (Selective recomputation: Korthikanti et al. 2022, "Reducing Activation Recomputation in
/// Large Transformer Models".) Where a result lives on, it is made a second time all the same; of
/// one that was written to since, derivatives are those of before.
class RecomputeScope {
 public:
  RecomputeScope();
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;

 private:
  bool before_;
};

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
  int64_t most = 0;  ///< elements of each input that are compared, spread evenly; 0: all
  std::vector<std::string> names = {};  ///< what errors call the inputs; left out: "input 0", ...
};

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the gradient of fn at `inputs` (f64; those that require a gradient) with central
/// differences, each element of the output weighted by its own constant. Throws Error that says
/// which input and element differ, and by how much.
void gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

/// The same for the gradient itself: second derivatives.
void gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options = {});

}  // namespace tern
