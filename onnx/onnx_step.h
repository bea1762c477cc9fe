// Writes one step of a model with a state as an ONNX file: the tensors of the state are inputs and
// outputs, as the caches of a language model. Models of the zoo:
//
//   auto example = [&](int64_t texts, int64_t past, int64_t tokens) {
//     return OnnxStepExample<models::GptState>{{randint(0, vocab, {texts, tokens}, rng)},
//                                              gpt.encode(randint(0, vocab, {texts, past}, rng))};
//   };
//   auto step = [&](const OnnxTensors& x, const models::GptState& state) {
//     auto y = gpt.extend(state, x[0]);
//     return std::pair(OnnxTensors{y.logits}, y.state);
//   };
//   export_onnx_step("gpt.onnx", gpt, step,
//                    std::vector{example(3, 4, 2), example(2, 3, 5), example(5, 11, 7)},
//                    {.inputs = {"tokens"}, .outputs = {"logits"}, .sizes = {"N", "T", "P"}});
//
// A state S needs a function map_tensors(state, fn), found by its namespace, that returns the state
// with fn(name, tensor) in place of each tensor (models/state_tensors.h has those of the zoo). All
// tensors of the state are inputs under these names. Those called "past.NAME" are outputs too, as
// "present.NAME": the next step's inputs. The other tensors stay as they are. What is no tensor is
// each example's own, as a number of tokens: the export treats it as a size.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/onnx/onnx.h"

namespace tern {

/// The inputs of a step besides the state, and the state before it.
template <class State>
struct OnnxStepExample {
  OnnxTensors inputs;
  State state;
};

/// Writes `step`, which is called as step(inputs, state) and returns a pair of OnnxTensors and the
/// next state. `options` names all inputs and outputs besides the state. Gradients must be off
/// while the examples are made, and the model in evaluation mode. Returns as export_onnx().
template <class M, class State, class Fn>
std::string export_onnx_step(const std::string& path, const M& model, const Fn& step,
                             const std::vector<OnnxStepExample<State>>& examples,
                             OnnxOptions options) {
  constexpr std::string_view kPast = "past.";
  std::vector<OnnxTensors> all;
  for (const OnnxStepExample<State>& example : examples) {
    OnnxTensors& inputs = all.emplace_back(example.inputs);
    const bool first = all.size() == 1;
    map_tensors(example.state, [&](const std::string& name, const Tensor& t) {
      inputs.push_back(t);
      if (first) options.inputs.push_back(name);
      if (first && name.starts_with(kPast))
        options.outputs.push_back("present." + name.substr(kPast.size()));
      return t;
    });
  }
  size_t run = 0;  // export_onnx() runs each example once, in order
  auto fn = [&](const OnnxTensors& x) {
    const OnnxStepExample<State>& example = examples[run++];
    auto next = x.begin() + std::ssize(example.inputs);
    const OnnxTensors inputs(x.begin(), next);
    const State before =
        map_tensors(example.state, [&](const std::string&, const Tensor&) { return *next++; });
    auto y = step(inputs, before);
    map_tensors(y.second, [&](const std::string& name, const Tensor& t) {
      if (name.starts_with(kPast)) y.first.push_back(t);
      return t;
    });
    return y.first;
  };
  return export_onnx(path, model, fn, all, options);
}

}  // namespace tern
