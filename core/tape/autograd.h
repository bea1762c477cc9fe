// Gradients for users. Operations on tensors that require a gradient are recorded on a tape.
// backward() and grad() run the tape from the newest op to the oldest, without recursion: a chain
// of a million ops works as well as a chain of ten.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tern/core/base/restored.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

class Rng;

/// Whether this thread records operations.
bool grad_enabled();

/// While one exists, this thread records nothing.
///
/// In-place operations are never recorded. Without a NoGradGuard they are refused where a gradient
/// would become wrong: on tensors that require a gradient, on tensors that share elements with one
/// (views, detach()), and with operands that require one. Under a NoGradGuard all are allowed. In
/// both cases backward() throws if something wrote to elements that an op had saved.
class NoGradGuard {
 public:
  [[nodiscard]] NoGradGuard();
  ~NoGradGuard();

 private:
  detail::Restored<bool> mode_;
};

/// While one exists, this thread records operations again inside a NoGradGuard.
class EnableGradGuard {
 public:
  [[nodiscard]] EnableGradGuard();
  ~EnableGradGuard();

 private:
  detail::Restored<bool> mode_;
};

struct BackwardOptions {
  Tensor gradient = {};       ///< d(something) / d(loss); required unless loss has one element
  bool retain_graph = false;  ///< keep the tensors that nodes saved, to run backward again
  /// Called once for each leaf that the loss depends on, as soon as its grad() is complete: no
  /// remaining VJP reads the leaf or adds to its gradient. The function may write to the leaf and
  /// free its gradient. Uses: an optimizer that steps inside backward, gradient buckets for
  /// several machines, a log. (An op that saved w.detach() is not tracked. If its VJP runs later,
  /// its elements have been overwritten, which is an Error.) The ops of the function are not
  /// recorded. Its exceptions leave backward().
  std::function<void(const Tensor& leaf)> on_ready = {};
};

/// Adds d(loss) / d(leaf) to the grad() of every leaf that loss depends on.
///
/// Several threads may run backward for the same leaves at the same time, each with its own graph.
/// No gradient is lost, but gradients are added in order of arrival, so the last bits may differ
/// from run to run. While a pass with on_ready runs, a pass of another thread that reaches one of
/// its leaves is an Error.
void backward(const Tensor& loss, const BackwardOptions& options = {});

struct GradOptions {
  bool create_graph = false;  ///< record the backward pass too, for higher derivatives
  bool retain_graph = false;  ///< implied by create_graph
  bool allow_unused = false;  ///< unused inputs get an undefined gradient instead of an Error
  std::vector<Tensor> gradients = {};  ///< one per output; required for outputs of several elements
};

/// d(sum of outputs) / d(input) for every input, leaf or not. Does not change any grad(). Error if
/// two threads ask for the same leaf at the same time.
[[nodiscard]] std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                       const std::vector<Tensor>& inputs,
                                       const GradOptions& options = {});

/// The leaves that `output` depends on, in the order in which the tape reaches them.
[[nodiscard]] std::vector<Tensor> leaves(const Tensor& output);

struct CheckpointOptions {
  /// Generators that fn passes to threads of its own. They must live until backward. Generators
  /// that fn uses in the calling thread need not be listed.
  std::vector<Rng*> rngs = {};
};

/// Runs fn(inputs) without keeping its intermediate results: fn runs again during backward.
/// Gradients reach the inputs and everything else that fn uses (parameters, captured results).
///
/// fn is copied and must give the same results again. Capture by value whatever changes before
/// backward, above all loop variables. Capture by reference only what exists until then (a module):
///
///   for (size_t i = 0; i < blocks.size(); ++i)  // not [&]: i is gone by then
///     x = checkpoint([&blocks, i](std::span<const Tensor> in) { return blocks[i](in[0]); }, {x});
///
/// The second run gets the random numbers (dropout) of the first, whatever the generators' state is
/// by then. The generators advance only once. Error if the second run draws more or fewer numbers,
/// gives another shape or uses other parameters. Writes of fn happen twice, except those to the
/// running statistics of batch_norm and instance_norm.
Tensor checkpoint(const std::function<Tensor(std::span<const Tensor>)>& fn,
                  const std::vector<Tensor>& inputs, const CheckpointOptions& options = {});

/// Whether this thread runs a checkpoint's fn for the second time. Code in fn that counts or
/// gathers has done so in the first run.
bool recomputing();

/// While one exists, this thread does not keep cheap results for the backward pass. These are the
/// results of layer_norm, rms_norm and group_norm; of linear with an activation whose gradient
/// keeps its input (gelu, silu) and without a residual; and of fused formulas whose gradients keep
/// all their inputs (a gate's product, SwiGLU). When backward first needs such a result, it
/// recomputes it with the same bits from tensors that the op keeps anyway. (Selective
/// recomputation: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
/// Models".) It does so even if the program still holds the result. If the result was overwritten,
/// derivatives use its original value.
class RecomputeScope {
 public:
  [[nodiscard]] RecomputeScope();
  ~RecomputeScope();

 private:
  detail::Restored<bool> mode_;
};

struct GradcheckOptions {
  double eps = 1e-6;
  double atol = 1e-5;
  double rtol = 1e-3;
  int64_t most = 0;  ///< number of elements compared per input, spread evenly; 0: all
  std::vector<std::string> names = {};  ///< names of the inputs in errors; default "input 0", ...
};

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Compares the gradient of fn with central differences, for those of the f64 `inputs` that require
/// a gradient. Each output element is weighted by its own constant. Throws an Error that names the
/// input, the element and the difference.
void gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

/// The same for second derivatives.
void gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                   const GradcheckOptions& options = {});

}  // namespace tern
