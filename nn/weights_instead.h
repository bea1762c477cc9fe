// Runs a module with other weights than its own. These may be results of ops: gradients flow to
// their sources. For parameter-efficient fine-tuning (LoRA, Hu et al. 2021), meta-learning (MAML,
// Finn et al. 2017), hypernetworks and weight averaging.
//
//   {
//     nn::WeightsInstead lora(model, {{name, weight + matmul(b, a)}});  // one weight, by its name
//     loss = model(x);
//   }
//   loss.backward();   // may come after the scope: gradients for a, b, and weight if it is trained
//
//   std::vector<Tensor> fast = nn::parameters(model);                 // MAML's inner loop
//   for (int step = 0; step < steps; ++step) {
//     nn::WeightsInstead adapted(model, fast);
//     std::vector<Tensor> slopes = grad({loss_of(model(x))}, fast, {.create_graph = true});
//     for (size_t i = 0; i < fast.size(); ++i) fast[i] = fast[i] - lr * slopes[i];
//   }
//
// A replaced Parameter gives the other tensor wherever it converts to a Tensor. So all layers and
// models work unchanged: fused ops, tied weights (one Parameter, replaced in both places),
// recurrent layers, weights packed in the scope. `Tensor w = layer.weight`, `layer.weight.tensor()`
// and in-place writes through them see the replacement. Its own tensor is still used by
// nn::named_parameters and the like, state_dict, files, optimizers and Parameter::grad().
//
// - The graph holds the sources of the replacements. So leaves(loss), on_ready and
//   optim::step_in_backward see those leaves, and a parameter only if it is one of them.
// - checkpoint() (nn::Recompute::full) reruns its function with the replacements of the first run,
//   even if the scope has ended.
// - For a product x (W + B A)^T the gradient of the whole matrix is computed on the way to A and B.
//   If that is too expensive, use a LinearHook that adds (x A^T) B^T to x W^T.
//
// Modules are plain structs whose calls the library does not see, so there is no hook on the output
// of an arbitrary module. Alternatives:
// - LinearHook below, for the results of linear() with a weight of a module;
// - a bias replaced by bias + v, for a vector that is added to every output;
// - on_gradient (core/ops/gradients/gradient_hook.h), for the gradient of a weight or of any
//   tensor;
// - a struct that wraps and calls a layer, your own or one in an AnyLayer;
// - ActivationRecorder and Observer (core/tape/op.h), which see all results and change none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/nn/module.h"

namespace tern {
namespace detail {
class SubstitutionScope;
}

namespace nn {

/// While it lives, ops of this thread use other tensors in place of a module's parameters. Scopes
/// nest: the innermost replacement of a parameter counts. Other parameters stay. Error that names
/// the parameter if names, shapes or types do not agree.
///
/// Whether a replacement requires a gradient is read when the scope begins. A copy of the module
/// has its own weights, which are not replaced. Inside the scope, copying a replaced parameter and
/// giving it new elements (nn::to) are Errors. Moving the module is allowed. Scopes may end in any
/// order, as the elements of a container do: the others stay active. REQUIRES: a scope ends in the
/// thread in which it began.
class WeightsInstead {
 public:
  /// `instead` has names of nn::named_parameters(module), in any order.
  template <class M>
  [[nodiscard]] WeightsInstead(const M& module, const NamedTensors& instead)
      : WeightsInstead(named_parameters(module), instead) {}
  /// `instead` has one tensor per parameter, in the order of nn::parameters(module).
  template <class M>
  [[nodiscard]] WeightsInstead(const M& module, const std::vector<Tensor>& instead)
      : WeightsInstead(named_parameters(module), instead) {}
  /// The same for given parameters, of several modules for example.
  [[nodiscard]] WeightsInstead(const NamedTensors& parameters, const NamedTensors& instead);
  [[nodiscard]] WeightsInstead(const NamedTensors& parameters, const std::vector<Tensor>& instead);
  ~WeightsInstead();
  WeightsInstead(const WeightsInstead&) = delete;
  WeightsInstead& operator=(const WeightsInstead&) = delete;

  /// The names of replaced parameters that no op has used so far. If these are all of them after a
  /// pass, the pass ran a copy of the module.
  std::vector<std::string> unused() const;

 private:
  std::unique_ptr<tern::detail::SubstitutionScope> scope_;
};

/// While it lives, fn changes the results x W^T + b of linear() with this weight, in this thread:
/// nn::LinearHook hook(gpt, "transformer.h.3.mlp.c_fc.weight", fn) works on unchanged models. The
/// weight may be that of a Linear, a projection of attention (in_proj_weight, also in parts), a
/// matrix of a recurrent cell, or a head. Activation, dropout and residual come after it, even if
/// they are otherwise fused. Only linear() calls fn: other uses of the weight in layers are Errors
/// (recurrent layers, gating units of gMLP, additive scores, WeightNorm, packing). Embeddings and
/// your own products (matmul) are no errors, but do not call fn.
///
/// fn(x, y) may keep x (the input) and use any op; an undefined result leaves y unchanged.
/// Gradients flow through it. No hook is called while it runs. checkpoint() calls it again, so fn
/// must give the same result. Of several hooks the outermost is called first. Works with
/// WeightsInstead, in any order. REQUIRES: as WeightsInstead.
class LinearHook {
 public:
  using Fn = std::function<Tensor(const Tensor& x, const Tensor& y)>;
  using List = std::vector<std::pair<std::string, Fn>>;  ///< names of weights and their functions

  /// Error if nn::named_parameters(module) has no such weight, or if it is not a matrix.
  template <class M>
  [[nodiscard]] LinearHook(const M& module, const std::string& weight, Fn fn)
      : LinearHook(named_parameters(module), weight, std::move(fn)) {}
  /// The same for several weights: LinearHook hooks(gpt, {{"head.weight", fn}, ...}).
  template <class M>
  [[nodiscard]] LinearHook(const M& module, const List& hooks)
      : LinearHook(named_parameters(module), hooks) {}
  [[nodiscard]] LinearHook(const NamedTensors& parameters, const List& hooks);
  [[nodiscard]] LinearHook(const NamedTensors& parameters, const std::string& weight, Fn fn);
  ~LinearHook();
  LinearHook(const LinearHook&) = delete;
  LinearHook& operator=(const LinearHook&) = delete;

  /// How often its functions were called, recomputation included. 0 after a pass: linear() did not
  /// use the weight.
  int64_t calls() const;

 private:
  std::unique_ptr<tern::detail::SubstitutionScope> scope_;
};

}  // namespace nn
}  // namespace tern
