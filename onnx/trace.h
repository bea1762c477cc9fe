// Runs of a model as lists of ops on numbered values, and what several runs have in common.
// Inside of onnx only.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tern/core/base/dtype.h"
#include "tern/core/io/state.h"
#include "tern/core/tensor/tensor.h"
#include "tern/onnx/form.h"

namespace tern::onnx {

/// A whole number as it was in each run.
using Size = std::vector<int64_t>;

/// Whether it was the same in all runs.
inline bool is_fixed(const Size& size) {
  return std::all_of(size.begin(), size.end(), [&](int64_t n) { return n == size[0]; });
}

struct Value {
  enum class Origin { input, state, constant, number, result, unknown };
  Origin origin = Origin::unknown;
  DType dtype = DType::f32;
  std::vector<Size> shape;
  std::string name;      ///< of an input or state; for unknown ones, why they are
  Tensor tensor;         ///< the elements in the first run
  uint64_t version = 0;  ///< of the elements when they were made
  Size number;           ///< of a whole number of shape () that differs between runs
};

/// What an op said under one name: whole numbers, numbers, or tensors.
struct Property {
  std::vector<Size> whole;
  std::vector<double> real;
  std::vector<int> tensors;  ///< values; -1: undefined
};

struct Call {
  std::string op, module;
  std::string outer;           ///< the op that called this one; empty if the program did
  const Form* form = nullptr;  ///< null if the export does not know the op
  std::vector<int> inputs;     ///< values; -1: undefined
  std::vector<int> results;
  std::map<std::string, Property> properties;

  std::string place() const;  ///< "slice (part of roll) in module blocks.0"
};

struct Trace {
  std::vector<Value> values;
  std::vector<Call> calls;  ///< each follows those that made its operands
  std::vector<int> inputs, outputs;
};

/// Runs fn(inputs) and records its ops. `names` are those of the inputs.
Trace record(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
             const std::vector<Tensor>& inputs, const std::vector<std::string>& names,
             const NamedTensors& state, int opset);

/// The calls that the outputs need, with values numbered in order of use. Error if the outputs need
/// an unknown value.
Trace pruned(const Trace& trace);

/// One trace for pruned traces of the same function. Results that depend on no input and were equal
/// in all runs become constants. Error if the runs differ in more than sizes.
Trace merged(const std::vector<Trace>& traces);

}  // namespace tern::onnx
