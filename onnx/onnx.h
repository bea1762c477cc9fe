// Writes a model as an ONNX file, for onnxruntime and other programs that read ONNX.
//
//   Rng rng(1);
//   models::Vit model(models::vit_options("vit-lite-7-4"), rng);
//   nn::load_weights("model.safetensors", model);
//   export_onnx("model.onnx", model, {{randn({2, 3, 32, 32}, rng)}, {randn({5, 3, 32, 32}, rng)}},
//               {.inputs = {"images"}, .outputs = {"logits"}});
//
// The model runs once for each example, in evaluation mode, and an observer records its ops. The
// file holds these ops in ONNX, and the weights under their names in state_dict().
//
// Sizes. A size of an input that differs between the examples may have any value in the file: it
// has a name there, N for the first one and T for the second. A size that is the same in all
// examples is fixed. Give two examples, and three if several sizes differ, as (2, 7), (5, 12) and
// (3, 20): each size needs another value in each, and its largest at least twice its smallest. What
// the model computes from the sizes is found by comparing the examples; if two ways fit, the export
// asks for others.
//
// What cannot be exported is an Error that names the op and its module, and no file is written:
// - an op that the export does not know, or that writes in place,
// - a tensor that depends on the inputs or on their sizes, but that no op made of them, such as
//   one made from to_vector(). It is found because it differs between the examples. So give
//   examples whose elements differ; an input with one value everywhere, or the same in all
//   examples, is an Error. A single whole number is a size, as in x / x.size(0).
// - a model that runs other ops for one example than for another.
// Two things cannot be seen, if all examples lead to the same ops and sizes, which the file has:
// - the program itself reads values of an input (item(), to_vector()) and chooses by them,
// - a part of fixed size, such as split(x, 2), is shorter on an axis shorter than in the examples.
//
// nn::Lstm, Gru and Rnn run over any length. A loop over time in the model itself is unrolled, so
// its length must be fixed; give one step, with the state as inputs and outputs (onnx_step.h).
//
// Types are f32, f64, i64 and u8. Functions that onnxruntime has only for f32 (erf, softplus) make
// an f64 model unusable there.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/core/io/state.h"
#include "tern/core/tensor/tensor.h"
#include "tern/nn/eval_scope.h"
#include "tern/nn/module.h"
#include "tern/onnx/onnx_options.h"

namespace tern {

/// The inputs of one call, and its outputs.
using OnnxTensors = std::vector<Tensor>;

/// Writes `fn` to `path`. `state`: tensors with their names in the file; others that do not depend
/// on the inputs become constants without a name. `fn` runs without gradients. Returns the inputs
/// and outputs of the file as text: "tokens i64 (N, T) to logits f32 (N, T, 80)".
std::string export_onnx(const std::string& path,
                        const std::function<OnnxTensors(const OnnxTensors&)>& fn,
                        const NamedTensors& state, const std::vector<OnnxTensors>& examples,
                        const OnnxOptions& options = {});

/// Writes a model that is called as fn(inputs) and returns OnnxTensors: a model with several inputs
/// or outputs, or one part of it.
template <class M, class Fn>
requires std::is_invocable_r_v<OnnxTensors, const Fn&, const OnnxTensors&> std::string export_onnx(
    const std::string& path, const M& model, const Fn& fn, const std::vector<OnnxTensors>& examples,
    const OnnxOptions& options = {}) {
  const nn::EvalScope evaluating(model);
  return export_onnx(path, std::function<OnnxTensors(const OnnxTensors&)>(fn),
                     nn::state_dict(model), examples, options);
}

/// Writes a model that maps one tensor to one.
template <class M>
requires std::is_invocable_r_v<Tensor, const M&, const Tensor&> std::string export_onnx(
    const std::string& path, const M& model, const std::vector<OnnxTensors>& examples,
    const OnnxOptions& options = {}) {
  auto fn = [&](const OnnxTensors& x) {
    check(x.size() == 1,
          "export_onnx: the model takes one tensor, but an example has {}; give a "
          "function of all inputs",
          x.size());
    return OnnxTensors{model(x[0])};
  };
  return export_onnx(path, model, fn, examples, options);
}

}  // namespace tern
