// Names, constants, symbolic sizes, and the messages of ONNX (onnx/onnx.proto of
// https://github.com/onnx/onnx, IR version 8).
#include "tern/onnx/emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/core/ops/ops.h"
#include "tern/version.h"

namespace tern::onnx {
namespace {

using detail::ProtobufMessage;
using Message = ProtobufMessage;

constexpr int kOpset = 17, kIrVersion = 8;

// Field numbers of ONNX's messages.
namespace field {
constexpr int kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpset = 8,
              kMetadata = 14;       // Model
constexpr int kKey = 1, kText = 2;  // StringStringEntry
constexpr int kOpsetVersion = 2;    // OperatorSetId
constexpr int kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12;       // Graph
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kOpType = 4, kAttribute = 5;  // Node
constexpr int kName = 1, kFloat = 2, kInt = 3, kString = 4, kInts = 8, kType = 20;  // Attribute
constexpr int kDims = 1, kDataType = 2, kTensorName = 8, kRaw = 9;                  // Tensor
constexpr int kInfoName = 1, kInfoType = 2;                                         // ValueInfo
constexpr int kTensorType = 1, kElemType = 1, kShape = 2;                           // Type
constexpr int kDim = 1, kDimValue = 1, kDimParam = 2;                               // TensorShape
}  // namespace field

bool is_fixed(const Size& size) {
  return std::all_of(size.begin(), size.end(), [&](int64_t n) { return n == size[0]; });
}

Message attribute_message(const Attribute& a) {
  constexpr int kFloatType = 1, kIntType = 2, kStringType = 3, kIntsType = 7;
  Message m;
  m.add_bytes(field::kName, a.name);
  if (const auto* i = std::get_if<int64_t>(&a.value))
    return m.add_int(field::kInt, *i).add_int(field::kType, kIntType);
  if (const auto* f = std::get_if<double>(&a.value))
    return m.add_float(field::kFloat, static_cast<float>(*f)).add_int(field::kType, kFloatType);
  if (const auto* s = std::get_if<std::string>(&a.value))
    return m.add_bytes(field::kString, *s).add_int(field::kType, kStringType);
  for (int64_t i : std::get<std::vector<int64_t>>(a.value)) m.add_int(field::kInts, i);
  return m.add_int(field::kType, kIntsType);
}

std::string bytes_of(const Tensor& t) {
  const Tensor c = t.contiguous();
  return dispatch(c.dtype(), [&]<class T>() {
    const char* from = c.numel() ? reinterpret_cast<const char*>(c.data<T>()) : "";
    return std::string(from, static_cast<size_t>(c.numel()) * sizeof(T));
  });
}

std::string default_name(const char* base, size_t i, size_t count) {
  return count == 1 ? base : fmt::format("{}_{}", base, i);
}

}  // namespace

int type_number(DType type) {
  switch (type) {
    case DType::f32:
      return 1;
    case DType::u8:
      return 2;
    case DType::i64:
      return 7;
    case DType::f64:
      return 11;
  }
  fail_unhandled("DType", type);
}

Emitter::Emitter(const Trace& trace, const OnnxOptions& options)
    : trace_(trace), options_(options) {
  for (size_t i = 0; i < trace.values.size(); ++i) {
    const Value& v = trace.values[i];
    if (v.origin == Value::Origin::input) names_[static_cast<int>(i)] = v.name;
  }
  find_symbols();
  for (const Call& call : trace.calls) emit(call);
}

// ---- Calls -------------------------------------------------------------------------------------

void Emitter::emit(const Call& call) {
  call_ = &call;
  if (!call.form) refuse("the export does not know this op");
  if (!call.form->write)
    refuse("the export can write this op only where its result is the same in all examples");
  call.form->write(*this);
}

void Emitter::refuse(const std::string& why) const {
  fail(fmt::format("export_onnx: {}: {}", call_->place(), why));
}

const Property& Emitter::find(const char* property) const {
  const auto found = call_->properties.find(property);
  if (found == call_->properties.end())
    refuse(
        fmt::format("this way to call the op cannot be exported (it does not say '{}')", property));
  return found->second;
}

std::vector<int64_t> Emitter::numbers(const char* property) const {
  std::vector<int64_t> out;
  for (const Size& size : sizes(property)) {
    if (!is_fixed(size))
      refuse(fmt::format("'{}' is {} in the examples; it must be the same for all sizes", property,
                         fmt::join(size, ", ")));
    out.push_back(size[0]);
  }
  return out;
}

int64_t Emitter::number(const char* property) const { return numbers(property).at(0); }
double Emitter::real(const char* property) const { return find(property).real.at(0); }

std::string Emitter::name(int id) {
  std::string& name = names_[id];
  if (!name.empty()) return name;
  const Value& v = value(id);
  if (auto truth = bools_.find(id); truth != bools_.end())
    return names_[id] = cast(truth->second, type_number(v.dtype));
  if (v.origin == Value::Origin::number) {
    const std::string whole = node("Squeeze", {size(v.number), ints({0})});
    return names_[id] = v.dtype == DType::i64 ? whole : cast(whole, type_number(v.dtype));
  }
  return names_[id] = constant(v.tensor, v.name);
}

std::string Emitter::bool_name(int id) {
  if (auto truth = bools_.find(id); truth != bools_.end()) return truth->second;
  return bools_[id] = cast(name(id), kBool);
}

std::string Emitter::in(int i, DType type) {
  return input(i).dtype == type ? in(i) : cast(in(i), type_number(type));
}

// ---- Nodes and constants -----------------------------------------------------------------------

std::string Emitter::node(const char* op, const std::vector<std::string>& inputs,
                          const std::vector<Attribute>& attributes) {
  const std::string module = call_ && !call_->module.empty() ? call_->module + "/" : "/";
  const std::string name = fmt::format("{}{}_{}", module, op, counts_[module + op]++);
  Message m;
  for (const std::string& input : inputs) m.add_bytes(field::kNodeInput, input);
  m.add_bytes(field::kNodeOutput, name).add_bytes(field::kNodeName, name);
  m.add_bytes(field::kOpType, op);
  for (const Attribute& a : attributes) m.add_message(field::kAttribute, attribute_message(a));
  nodes_.push_back(m.bytes());
  return name;
}

std::string Emitter::cast(const std::string& x, int type) {
  return node("Cast", {x}, {{"to", static_cast<int64_t>(type)}});
}

std::string Emitter::constant(const Tensor& t, std::string name) {
  const std::string raw = bytes_of(t);
  constexpr int64_t kSmall = 64;  // elements that are not stored twice
  const bool shares = name.empty() && t.numel() <= kSmall;
  const std::string key = shares ? fmt::format("{} {} {}", t.dtype(), t.shape(), raw) : "";
  if (auto known = made_.find(key); shares && known != made_.end()) return known->second;
  if (name.empty()) name = fmt::format("/constant_{}", counts_["/constant"]++);
  Message m;
  for (int64_t size : t.shape()) m.add_int(field::kDims, size);
  m.add_int(field::kDataType, type_number(t.dtype()));
  m.add_bytes(field::kTensorName, name).add_bytes(field::kRaw, raw);
  initializers_.push_back(m.bytes());
  if (shares) made_[key] = name;
  return name;
}

std::string Emitter::ints(const std::vector<int64_t>& values) {
  return constant(tern::tensor(values));
}

std::string Emitter::number(double value, DType type) {
  if (is_float(type)) return constant(tern::scalar(value, type));
  return constant(tern::scalar(static_cast<int64_t>(value), type));
}

// ---- Sizes -------------------------------------------------------------------------------------

void Emitter::find_symbols() {
  constexpr const char* kUsual[] = {"N", "T"};
  for (int id : trace_.inputs) {
    const std::vector<Size>& shape = value(id).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      auto same = [&](const Symbol& s) { return s.size == shape[axis]; };
      if (is_fixed(shape[axis]) || std::any_of(symbols_.begin(), symbols_.end(), same)) continue;
      const size_t i = symbols_.size();
      std::string name = i < options_.sizes.size() ? options_.sizes[i]
                         : i < std::size(kUsual)   ? kUsual[i]
                                                   : fmt::format("size_{}", i);
      symbols_.push_back({std::move(name), shape[axis], names_[id], static_cast<int>(axis)});
    }
  }
  check(options_.sizes.size() <= symbols_.size(),
        "export_onnx: {} sizes have names, but {} sizes differ between the examples",
        options_.sizes.size(), symbols_.size());
}

/// All ways to compute a size from the symbols: k s, k s t, s + c.
std::vector<Emitter::Formula> Emitter::formulas(const Size& size) const {
  std::vector<Formula> out;
  // Adds the formula if size = factor * base in every example.
  auto multiple = [&](const Size& base, int first, int second) {
    if (base[0] == 0 || size[0] == 0 || size[0] % base[0] != 0) return;
    const int64_t factor = size[0] / base[0];
    for (size_t run = 0; run < size.size(); ++run)
      if (size[run] != factor * base[run]) return;
    out.push_back({first, second, factor, 0});
  };
  const int n = static_cast<int>(symbols_.size());
  for (int i = 0; i < n; ++i) {
    const Size& s = symbols_[static_cast<size_t>(i)].size;
    multiple(s, i, -1);
    Size differences = size;
    for (size_t run = 0; run < size.size(); ++run) differences[run] -= s[run];
    if (is_fixed(differences) && differences[0] != 0) out.push_back({i, -1, 1, differences[0]});
    for (int j = i; j < n; ++j) {
      Size product = s;
      for (size_t run = 0; run < size.size(); ++run)
        product[run] *= symbols_[static_cast<size_t>(j)].size[run];
      multiple(product, i, j);
    }
  }
  return out;
}

std::string Emitter::text(const Formula& f) const {
  std::string out = f.factor == 1 ? "" : fmt::format("{}*", f.factor);
  out += symbols_[static_cast<size_t>(f.first)].name;
  if (f.second >= 0) out += "*" + symbols_[static_cast<size_t>(f.second)].name;
  return f.offset == 0 ? out : fmt::format("{}{:+}", out, f.offset);
}

std::string Emitter::size(const Size& size) {
  if (is_fixed(size)) return ints({size[0]});
  const std::vector<Formula> found = formulas(size);
  if (found.empty())
    refuse(fmt::format("the size {} in the examples does not follow from the sizes of the inputs",
                       fmt::join(size, ", ")));
  if (found.size() > 1)
    refuse(
        fmt::format("the size {} in the examples may be {} or {}; choose other sizes for the "
                    "examples, or give one more",
                    fmt::join(size, ", "), text(found[0]), text(found[1])));
  const Formula& f = found[0];
  std::string& made = made_["size " + text(f)];
  if (!made.empty()) return made;
  auto symbol = [&](int i) {
    const Symbol& s = symbols_[static_cast<size_t>(i)];
    std::string& known = made_["symbol " + s.name];
    if (known.empty())
      known = node("Shape", {s.input},
                   {{"start", int64_t{s.axis}}, {"end", static_cast<int64_t>(s.axis) + 1}});
    return known;
  };
  std::string out = symbol(f.first);
  if (f.second >= 0) out = node("Mul", {out, symbol(f.second)});
  if (f.factor != 1) out = node("Mul", {out, ints({f.factor})});
  if (f.offset != 0) out = node("Add", {out, ints({f.offset})});
  return made = out;
}

std::string Emitter::scalar(const char* property) {
  const Size& s = sizes(property).at(0);
  if (is_fixed(s)) return number(static_cast<double>(s[0]), DType::i64);
  return node("Squeeze", {size(s), ints({0})});
}

std::string Emitter::shape(const std::vector<Size>& sizes) {
  if (std::all_of(sizes.begin(), sizes.end(), is_fixed)) {
    std::vector<int64_t> all;
    for (const Size& s : sizes) all.push_back(s[0]);
    return ints(all);
  }
  std::vector<std::string> parts;
  for (const Size& s : sizes) parts.push_back(size(s));
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", int64_t{0}}});
}

// Reshape takes 0 for "as before" and one -1 for "what is left". Only if two sizes or more remain,
// they are computed.
std::string Emitter::reshaped(const std::string& x, const std::vector<Size>& from,
                              const std::vector<Size>& to) {
  std::vector<int64_t> plain;
  std::vector<Size> sizes = to;
  int left = -1, unknown = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    if (is_fixed(to[i])) {
      if (to[i][0] == 0) refuse("a tensor without elements changes its shape");
    } else if (i < from.size() && from[i] == to[i]) {
      sizes[i] = Size(to[i].size(), 0);
    } else {
      left = static_cast<int>(i);
      ++unknown;
    }
  }
  if (left >= 0) sizes[static_cast<size_t>(left)] = Size(to[0].size(), -1);
  return node("Reshape", {x, shape(sizes)});
}

// ---- The file ----------------------------------------------------------------------------------

Message Emitter::info(const std::string& name, const Value& v) const {
  Message shape;
  for (const Size& size : v.shape) {
    Message dim;
    if (is_fixed(size)) {
      dim.add_int(field::kDimValue, size[0]);
    } else if (const auto found = formulas(size); found.size() == 1) {
      dim.add_bytes(field::kDimParam, text(found[0]));
    }
    shape.add_message(field::kDim, dim);
  }
  Message tensor;
  tensor.add_int(field::kElemType, type_number(v.dtype)).add_message(field::kShape, shape);
  return Message()
      .add_bytes(field::kInfoName, name)
      .add_message(field::kInfoType, Message().add_message(field::kTensorType, tensor));
}

std::pair<ProtobufMessage, ProtobufMessage> Emitter::model() {
  call_ = nullptr;
  Message graph;
  graph.add_bytes(field::kGraphName, "tern");
  std::vector<Message> outputs;
  for (size_t i = 0; i < trace_.outputs.size(); ++i) {
    const std::string name = i < options_.outputs.size()
                                 ? options_.outputs[i]
                                 : default_name("output", i, trace_.outputs.size());
    // Identity gives the output its name.
    Message m;
    m.add_bytes(field::kNodeInput, this->name(trace_.outputs[i]))
        .add_bytes(field::kNodeOutput, name);
    m.add_bytes(field::kNodeName, "/output_" + name).add_bytes(field::kOpType, "Identity");
    nodes_.push_back(m.bytes());
    outputs.push_back(info(name, value(trace_.outputs[i])));
  }
  for (const std::string& n : nodes_) graph.add_bytes(field::kNode, n);
  for (std::string& t : initializers_) {
    graph.add_bytes(field::kInitializer, t);
    std::string().swap(t);  // a large model is not twice in memory
  }
  for (int id : trace_.inputs) graph.add_message(field::kInput, info(names_[id], value(id)));
  for (const Message& m : outputs) graph.add_message(field::kOutput, m);
  Message head;
  head.add_int(field::kIrVersion, kIrVersion).add_bytes(field::kProducer, "tern");
  head.add_bytes(field::kProducerVersion, kVersion);
  head.add_message(field::kOpset, Message().add_int(field::kOpsetVersion, kOpset));
  for (const auto& [key, text] : options_.metadata)
    head.add_message(field::kMetadata,
                     Message().add_bytes(field::kKey, key).add_bytes(field::kText, text));
  head.begin_bytes(field::kGraph, graph.bytes().size());
  return {head, graph};
}

}  // namespace tern::onnx
