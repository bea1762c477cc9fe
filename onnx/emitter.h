// Writes a trace as a model of ONNX. Inside of onnx only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tern/core/io/protobuf.h"
#include "tern/onnx/onnx_options.h"
#include "tern/onnx/trace.h"

namespace tern::onnx {

/// An attribute of a node.
struct Attribute {
  const char* name;
  std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<std::string>> value;
};

/// Collects nodes and weights. A form (form.h) reads the call from it and gives the result's name.
/// Names of tensors in ONNX are strings here.
class Emitter {
 public:
  /// `options` names all outputs.
  Emitter(const Trace& trace, const OnnxOptions& options);
  /// Writes the file. Returns its inputs and outputs as text.
  std::string write(const std::string& path);

  // ---- The call that a form writes. Errors name it.
  int opset() const { return options_.opset; }
  const char* onnx() const { return call_->form->onnx; }
  int inputs() const { return static_cast<int>(call_->inputs.size()); }
  bool has(int input) const { return input < inputs() && call_->inputs[input] >= 0; }
  const Value& input(int i) const { return value(call_->inputs[i]); }
  const Value& result() const { return value(call_->results[0]); }
  /// Whether the input is known as truth values, 0 or 1.
  bool is_bool(int i) const { return bools_.contains(call_->inputs[i]); }
  bool says(const char* property) const { return call_->properties.contains(property); }
  const std::vector<Size>& sizes(const char* property) const { return find(property).whole; }
  std::vector<int64_t> numbers(const char* property) const;  ///< sizes that are always the same
  int64_t number(const char* property) const;
  double real(const char* property) const;
  bool has_tensor(const char* property) const { return find(property).tensors.at(0) >= 0; }
  std::string tensor(const char* property) { return name(find(property).tensors.at(0)); }
  std::string bool_tensor(const char* property) { return bool_name(find(property).tensors.at(0)); }
  std::string in(int i) { return name(call_->inputs[i]); }
  std::string in(int i, DType type);                 ///< converted
  std::string x() { return in(0, result().dtype); }  ///< the first input, in the result's type
  std::string bool_in(int i) { return bool_name(call_->inputs[i]); }
  void give(const std::string& name, int result = 0) {
    names_[call_->results[static_cast<size_t>(result)]] = name;
  }
  /// A result of truth values, which are numbers in tern.
  void give_bool(const std::string& name) { bools_[call_->results[0]] = name; }
  /// Gives a size of the given result a name if it differs between examples: one that does not
  /// follow from the named sizes, such as those behind a stride. Where an input has the same size
  /// in all examples, that is taken for chance.
  void name_size(int axis);
  void negate() { give_bool(node("Not", {bools_.at(call_->results[0])})); }
  [[noreturn]] void refuse(const std::string& why) const;

  // ---- Nodes and constants.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}) {
    return nodes(op, inputs, attributes, 1)[0];
  }
  /// A node with several outputs.
  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 const std::vector<Attribute>& attributes, int outputs);
  std::string cast(const std::string& x, int type);
  std::string constant(const Tensor& t, std::string name = "");
  std::string ints(const std::vector<int64_t>& values);  ///< i64 (n)
  std::string number(double value, DType type);          ///< shape ()
  std::string number(double value) { return number(value, result().dtype); }
  std::string whole(int64_t value, DType type);  ///< shape (), exact
  /// A number that the op said, in the result's type. Integers are exact: then the op has said the
  /// number as a whole one too.
  std::string said(const char* property);
  std::string size(const Size& size);                 ///< i64 (1)
  std::string scalar(const char* property);           ///< i64 (), a size that the op said
  std::string shape(const std::vector<Size>& sizes);  ///< i64 (n)
  std::string reshaped(const std::string& x, const std::vector<Size>& from,
                       const std::vector<Size>& to);

 private:
  /// A size that differs between examples, and where it is found.
  struct Symbol {
    std::string name;
    Size size;
    std::string tensor;
    int axis;
    bool of_input;  ///< else of a result, by name_size()
  };
  /// factor * first * second + offset, or first + second + offset; second may be missing (-1).
  struct Formula {
    int first, second;
    bool adds;
    int64_t factor, offset;
  };

  const Value& value(int id) const { return trace_.values[static_cast<size_t>(id)]; }
  const Property& find(const char* property) const;
  std::string name(int value);
  std::string bool_name(int value);
  /// "PREFIX_0", or with the next number that no tensor has.
  std::string unused(const std::string& prefix);
  void find_symbols();
  void check_evidence() const;
  std::vector<Formula> formulas(const Size& size) const;
  std::string text(const Formula& formula) const;
  /// "3", "N+1"; "?" if the examples leave it open. `origin`: of the tensor that has the size; an
  /// input's sizes have their own names.
  std::string text(const Size& size, Value::Origin origin) const;
  void emit(const Call& call);
  void name_outputs();
  detail::ProtobufMessage info(const std::string& name, const Value& v) const;
  detail::ProtobufMessage model_head(size_t graph_bytes) const;
  std::string signature(const std::vector<std::string>& names, const std::vector<int>& ids) const;

  const Trace& trace_;
  const OnnxOptions& options_;
  const Call* call_ = nullptr;
  std::vector<Symbol> symbols_;
  std::map<int, std::string> names_;         // of values
  std::map<int, std::string> bools_;         // of those that are truth values in ONNX
  std::map<std::string, std::string> made_;  // names of nodes and constants that may be shared
  std::map<std::string, int> counts_;
  std::set<std::string> given_;  // names of inputs, outputs and weights
  std::vector<std::string> nodes_;
  NamedTensors weights_;
};

/// ONNX's number of a type.
int type_number(DType type);
constexpr int kInt32 = 6, kBool = 9;

}  // namespace tern::onnx
