// A module run with other weights than its own, which may be results of ops: gradients flow to what
// they were made of. For fine-tuning with few weights (LoRA, Hu et al. 2021), learning to learn
// (MAML, Finn et al. 2017), hypernetworks, weights averaged on the way.
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
// What is replaced is the Parameter where it turns into a Tensor. So all layers and models take
// part as they are: fused ops, tied weights (one Parameter, replaced in both places), recurrent
// layers, packed weights that are made in the scope. What asks for a Parameter's own tensor still
// gets it: nn::named_parameters and its kind, state_dict, files, optimizers, Parameter::grad().
// `Tensor w = layer.weight`, `layer.weight.tensor()` and in-place writes through them see what
// stands there instead.
//
// - The graph holds what the replacing tensors were made of, so leaves(loss), on_ready and
//   optim::step_in_backward see those leaves, and a parameter only if it is one of them.
// - checkpoint() (nn::Recompute::full) runs its function again with what stood there when it ran
//   first, wherever the scope is by then.
// - Of a product x (W + B A)^T the gradient of the whole matrix is computed on the way to A and B.
//   Where that is too dear, a LinearHook adds (x A^T) B^T to x W^T.
//
// Modules are plain structs, whose calls the library does not see. So there is no hook on the
// output of any module by its name. What there is:
// - LinearHook below: the results of linear() with a weight of a module;
// - a bias in whose place stands bias + v, for a vector that is added to an output everywhere;
// - on_gradient (core/ops/gradient_hook.h): the gradient of a weight, or of a tensor at hand;
// - a layer of one's own, or in an AnyLayer, can be wrapped in a struct that calls it;
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

/// While it lives, ops of this thread take other tensors in the place of a module's parameters.
/// Scopes nest: the innermost that replaces a parameter counts. Parameters without a replacement
/// stay. An Error that names the parameter if names, shapes or types do not agree.
///
/// Whether a replacing tensor requires a gradient is read when the scope begins. A copy of the
/// module has weights of its own, which nothing replaces; copying a replaced parameter in the scope
/// is an Error, and so is giving it new elements (nn::to). Moving the module is allowed.
/// REQUIRES: scopes of a thread end in the reverse order.
class WeightsInstead {
 public:
  /// `instead` by the names of nn::named_parameters(module), in any order.
  template <class M>
  WeightsInstead(const M& module, const NamedTensors& instead)
      : WeightsInstead(named_parameters(module), instead) {}
  /// One for each parameter, in the order of nn::parameters(module).
  template <class M>
  WeightsInstead(const M& module, const std::vector<Tensor>& instead)
      : WeightsInstead(named_parameters(module), instead) {}
  /// The same for parameters that a walk has found, of several modules for example.
  WeightsInstead(const NamedTensors& parameters, const NamedTensors& instead);
  WeightsInstead(const NamedTensors& parameters, const std::vector<Tensor>& instead);
  ~WeightsInstead();
  WeightsInstead(const WeightsInstead&) = delete;
  WeightsInstead& operator=(const WeightsInstead&) = delete;

  /// The names of replaced parameters that no op has asked for so far. All of them after a pass:
  /// the pass ran a copy of the module.
  std::vector<std::string> unused() const;

 private:
  std::unique_ptr<tern::detail::SubstitutionScope> scope_;
};

/// While it lives, results x W^T + b of linear() with this weight are what fn makes of them, in
/// this thread: nn::LinearHook hook(gpt, "transformer.h.3.mlp.c_fc.weight", fn) on models as they
/// are. That is the output of a Linear, a projection of attention (in_proj_weight, also in parts),
/// a matrix of a recurrent cell, a head. Activation, dropout and residual come after it, also where
/// they are fused otherwise. Not seen are products that are not linear(): sequences of recurrent
/// layers, packed weights, embeddings.
///
/// fn(x, y) may keep x (the input) and use any op; an undefined tensor leaves y as it is. Gradients
/// flow through it. No hook is called while it runs. What checkpoint() runs again is hooked again,
/// so fn must give the same. Of several hooks the outermost is called first. It works together with
/// WeightsInstead, in any order. REQUIRES: as WeightsInstead.
class LinearHook {
 public:
  using Fn = std::function<Tensor(const Tensor& x, const Tensor& y)>;

  /// An Error if nn::named_parameters(module) has no such weight, or it is no matrix.
  template <class M>
  LinearHook(const M& module, const std::string& weight, Fn fn)
      : LinearHook(named_parameters(module), weight, std::move(fn)) {}
  LinearHook(const NamedTensors& parameters, const std::string& weight, Fn fn);
  ~LinearHook();
  LinearHook(const LinearHook&) = delete;
  LinearHook& operator=(const LinearHook&) = delete;

  /// How often fn was called, for recomputation too. 0 after a pass: the weight went elsewhere.
  int64_t calls() const;

 private:
  std::unique_ptr<tern::detail::SubstitutionScope> scope_;
};

}  // namespace nn
}  // namespace tern
