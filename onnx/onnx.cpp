// The export: checks the examples, records a run of each, and writes the file.
#include "tern/onnx/onnx.h"

#include <algorithm>
#include <set>

#include "tern/onnx/emitter.h"
#include "tern/onnx/trace.h"

namespace tern {
namespace {

void check_examples(const std::vector<OnnxTensors>& examples) {
  check(examples.size() >= 2,
        "export_onnx: needs at least two examples, got {}; sizes that differ between them may have "
        "any value in the file",
        examples.size());
  const OnnxTensors& first = examples[0];
  for (const OnnxTensors& example : examples) {
    check(example.size() == first.size(), "export_onnx: one example has {} inputs, another {}",
          first.size(), example.size());
    for (size_t i = 0; i < example.size(); ++i)
      check(example[i].defined() && example[i].ndim() == first[i].ndim() &&
                example[i].dtype() == first[i].dtype(),
            "export_onnx: input {} must have the same type and number of axes in all examples", i);
  }
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector<double>() == b.to_vector<double>();
}

/// Error if an input has one value everywhere, or the same elements in all examples. A tensor that
/// the model computes from it outside of ops would be the same too, and pass for a constant.
void check_varied(const std::vector<OnnxTensors>& examples, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    std::set<double> seen;
    for (const OnnxTensors& example : examples)
      for (double v : example[i].to_vector<double>())
        if (seen.size() < 2) seen.insert(v);
    check(seen.size() != 1,
          "export_onnx: {} is {} everywhere in all examples; give examples with different "
          "elements, so that what depends on them can be told from a constant",
          names[i], *seen.begin());
    auto same = [&](const OnnxTensors& e) { return same_tensor(e[i], examples[0][i]); };
    check(seen.empty() || !std::all_of(examples.begin(), examples.end(), same),
          "export_onnx: {} is the same in all examples; give examples with different elements, so "
          "that what depends on them can be told from a constant",
          names[i]);
  }
}

std::vector<std::string> input_names(const OnnxOptions& options, size_t count) {
  check(options.inputs.size() <= count, "export_onnx: {} names for {} inputs",
        options.inputs.size(), count);
  std::vector<std::string> names = options.inputs;
  while (names.size() < count)
    names.push_back(count == 1 ? "input" : fmt::format("input_{}", names.size()));
  return names;
}

std::vector<std::string> output_names(const OnnxOptions& options, size_t count) {
  check(options.outputs.size() <= count, "export_onnx: {} names for {} outputs",
        options.outputs.size(), count);
  std::vector<std::string> names = options.outputs;
  while (names.size() < count)
    names.push_back(count == 1 ? "output" : fmt::format("output_{}", names.size()));
  return names;
}

/// A weight may have the empty name: then the file gives it one.
void check_names(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const NamedTensors& state) {
  std::set<std::string> taken;
  auto take = [&](const std::string& name) {
    check(!name.empty() && taken.insert(name).second,
          "export_onnx: the name '{}' is empty or is used twice (inputs, outputs and weights need "
          "different names)",
          name);
  };
  for (const auto& [name, t] : state) {
    check(t.defined(), "export_onnx: the weight '{}' is undefined", name);
    if (!name.empty()) take(name);
  }
  for (const std::string& name : inputs) take(name);
  for (const std::string& name : outputs) take(name);
}

}  // namespace

std::string export_onnx(const std::string& path,
                        const std::function<OnnxTensors(const OnnxTensors&)>& fn,
                        const NamedTensors& state, const std::vector<OnnxTensors>& examples,
                        const OnnxOptions& options) {
  check(options.opset == 17 || options.opset == 23,
        "export_onnx: the opset is {}; tern writes 17 and 23", options.opset);
  check_examples(examples);
  OnnxOptions named = options;
  named.inputs = input_names(options, examples[0].size());
  check_varied(examples, named.inputs);
  check_names(named.inputs, options.outputs, state);
  std::vector<onnx::Trace> traces;
  for (const OnnxTensors& example : examples)
    traces.push_back(onnx::pruned(onnx::record(fn, example, named.inputs, state, options.opset)));
  const onnx::Trace trace = onnx::merged(traces);
  traces.clear();
  named.outputs = output_names(options, trace.outputs.size());
  check_names(named.inputs, named.outputs, state);
  return onnx::Emitter(trace, named).write(path);
}

}  // namespace tern
