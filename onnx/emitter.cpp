// Names, constants, symbolic sizes, and the messages of ONNX (onnx/onnx.proto of
// https://github.com/onnx/onnx).
#include "tern/onnx/emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/core/base/ceil_div.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/ops/ops.h"
#include "tern/version.h"

namespace tern::onnx {
namespace {

using detail::ProtobufMessage;
using Message = ProtobufMessage;

// Constants of so many elements are not stored twice, and stay in the model's file, where programs
// read shapes.
constexpr int64_t kSmall = 64;

// Field numbers of ONNX's messages.
namespace field {
constexpr int kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpset = 8,
              kMetadata = 14;       // Model
constexpr int kKey = 1, kText = 2;  // StringStringEntry
constexpr int kOpsetVersion = 2;    // OperatorSetId
constexpr int kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12;       // Graph
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kOpType = 4, kAttribute = 5;  // Node
constexpr int kName = 1, kFloat = 2, kInt = 3, kString = 4, kInts = 8, kStrings = 9,
              kType = 20;  // Attribute
constexpr int kDims = 1, kDataType = 2, kTensorName = 8, kRaw = 9, kExternal = 13,
              kLocation = 14;                              // Tensor
constexpr int kInfoName = 1, kInfoType = 2;                // ValueInfo
constexpr int kTensorType = 1, kElemType = 1, kShape = 2;  // Type
constexpr int kDim = 1, kDimValue = 1, kDimParam = 2;      // TensorShape
}  // namespace field

Message attribute_message(const Attribute& a) {
  constexpr int kFloatType = 1, kIntType = 2, kStringType = 3, kIntsType = 7, kStringsType = 8;
  Message m;
  m.add_bytes(field::kName, a.name);
  if (const auto* i = std::get_if<int64_t>(&a.value))
    return m.add_int(field::kInt, *i).add_int(field::kType, kIntType);
  if (const auto* f = std::get_if<double>(&a.value))
    return m.add_float(field::kFloat, static_cast<float>(*f)).add_int(field::kType, kFloatType);
  if (const auto* s = std::get_if<std::string>(&a.value))
    return m.add_bytes(field::kString, *s).add_int(field::kType, kStringType);
  if (const auto* strings = std::get_if<std::vector<std::string>>(&a.value)) {
    for (const std::string& s : *strings) m.add_bytes(field::kStrings, s);
    return m.add_int(field::kType, kStringsType);
  }
  for (int64_t i : std::get<std::vector<int64_t>>(a.value)) m.add_int(field::kInts, i);
  return m.add_int(field::kType, kIntsType);
}

Message entry(const std::string& key, const std::string& text) {
  return Message().add_bytes(field::kKey, key).add_bytes(field::kText, text);
}

int64_t bytes_of(const Tensor& t) { return t.numel() * item_size(t.dtype()); }

/// Calls fn(std::string_view) with the elements.
template <class Fn>
auto with_bytes(const Tensor& t, const Fn& fn) {
  const Tensor c = t.contiguous();
  return dispatch(c.dtype(), [&]<class T>() {
    const char* from = c.numel() ? reinterpret_cast<const char*>(c.data<T>()) : "";
    return fn(std::string_view(from, static_cast<size_t>(bytes_of(c))));
  });
}

// What stands before the bytes of a weight. `offset`: of its bytes in a file of that name; an empty
// name: they follow.
std::string weight_head(const std::string& name, const Tensor& t, const std::string& file,
                        int64_t offset) {
  Message m, head;
  for (int64_t n : t.shape()) m.add_int(field::kDims, n);
  m.add_int(field::kDataType, type_number(t.dtype())).add_bytes(field::kTensorName, name);
  const int64_t bytes = bytes_of(t);
  if (file.empty()) {
    m.begin_bytes(field::kRaw, static_cast<size_t>(bytes));
    head.begin_bytes(field::kInitializer, m.bytes().size() + static_cast<size_t>(bytes));
    return head.bytes() + m.bytes();
  }
  m.add_message(field::kExternal, entry("location", file));
  m.add_message(field::kExternal, entry("offset", fmt::format("{}", offset)));
  m.add_message(field::kExternal, entry("length", fmt::format("{}", bytes)));
  m.add_int(field::kLocation, 1);
  return head.add_message(field::kInitializer, m).bytes();
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
    : trace_(trace), options_(options), given_(options.outputs.begin(), options.outputs.end()) {
  for (size_t i = 0; i < trace.values.size(); ++i) {
    const Value& v = trace.values[i];
    if (v.origin == Value::Origin::input) names_[static_cast<int>(i)] = v.name;
    given_.insert(v.name);
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
  fail(fmt::format("export_onnx: {}: {}", call_ ? call_->place() : "the outputs", why));
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
  if (v.origin == Value::Origin::result && !bools_.contains(id))
    refuse("the export cannot write this result of the op");
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
  std::string& made = made_["bool " + name(id)];
  return made.empty() ? made = cast(name(id), kBool) : made;
}

std::string Emitter::unused(const std::string& prefix) {
  std::string name;
  do {
    name = fmt::format("{}_{}", prefix, counts_[prefix]++);
  } while (given_.contains(name));
  return name;
}

std::string Emitter::in(int i, DType type) {
  return input(i).dtype == type ? in(i) : cast(in(i), type_number(type));
}

// ---- Nodes and constants -----------------------------------------------------------------------

std::vector<std::string> Emitter::nodes(const std::string& op,
                                        const std::vector<std::string>& inputs,
                                        const std::vector<Attribute>& attributes, int outputs) {
  const std::string module = call_ && !call_->module.empty() ? call_->module + "/" : "/";
  const std::string name = unused(module + op);
  Message m;
  for (const std::string& input : inputs) m.add_bytes(field::kNodeInput, input);
  std::vector<std::string> names = {name};
  while (std::ssize(names) < outputs) names.push_back(fmt::format("{}:{}", name, names.size()));
  for (const std::string& output : names) m.add_bytes(field::kNodeOutput, output);
  m.add_bytes(field::kNodeName, name).add_bytes(field::kOpType, op);
  for (const Attribute& a : attributes) m.add_message(field::kAttribute, attribute_message(a));
  nodes_.push_back(m.bytes());
  return names;
}

std::string Emitter::cast(const std::string& x, int type) {
  return node("Cast", {x}, {{"to", static_cast<int64_t>(type)}});
}

std::string Emitter::constant(const Tensor& t, std::string name) {
  const bool shares = name.empty() && t.numel() <= kSmall;
  std::string key;
  if (shares)
    key =
        with_bytes(t, [&](auto raw) { return fmt::format("{} {} {}", t.dtype(), t.shape(), raw); });
  if (auto known = made_.find(key); shares && known != made_.end()) return known->second;
  if (name.empty()) name = unused("/constant");
  weights_.emplace_back(name, t);
  if (shares) made_[key] = name;
  return name;
}

std::string Emitter::ints(const std::vector<int64_t>& values) {
  return constant(tern::tensor(values));
}

std::string Emitter::number(double value, DType type) {
  if (is_float(type)) return constant(tern::scalar(value, type));
  return whole(static_cast<int64_t>(value), type);
}

std::string Emitter::whole(int64_t value, DType type) {
  return constant(tern::scalar(value, type));
}

std::string Emitter::said(const char* property) {
  const bool exact = !is_float(result().dtype) && !find(property).whole.empty();
  return exact ? whole(number(property), result().dtype) : number(real(property));
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
      check(!name.empty(), "export_onnx: the name of size {} is empty", i);
      for (const Symbol& s : symbols_)
        check(s.name != name, "export_onnx: two sizes have the name {}; give each its own", name);
      symbols_.push_back({std::move(name), shape[axis], names_[id], static_cast<int>(axis), true});
    }
  }
  check(options_.sizes.size() <= symbols_.size(),
        "export_onnx: {} sizes have names, but {} sizes differ between the examples",
        options_.sizes.size(), symbols_.size());
  check_evidence();
}

void Emitter::name_size(int axis) {
  const Size& size = result().shape[static_cast<size_t>(axis)];
  auto same = [&](const Symbol& s) { return !s.of_input && s.size == size; };
  if (is_fixed(size) || std::any_of(symbols_.begin(), symbols_.end(), same)) return;
  std::string name;
  auto taken = [&](const Symbol& s) { return s.name == name; };
  size_t i = symbols_.size();
  do {
    name = fmt::format("size_{}", i++);
  } while (std::any_of(symbols_.begin(), symbols_.end(), taken));
  symbols_.push_back({name, size, names_.at(call_->results[0]), axis, false});
}

/// A size inside the model could be the same in two examples, or follow from a symbol in a wrong
/// way, by chance. Error unless the examples make that unlikely.
void Emitter::check_evidence() const {
  for (const Symbol& s : symbols_) {
    Size sorted = s.size;
    std::sort(sorted.begin(), sorted.end());
    check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
              sorted.back() >= 2 * sorted.front(),
          "export_onnx: size {} is {} in the examples; it needs another value in each, and the "
          "largest must be at least twice the smallest",
          s.name, fmt::join(s.size, ", "));
  }
  check(symbols_.size() < 2 || symbols_[0].size.size() > 2,
        "export_onnx: several sizes differ between the examples ({} and {}); give three examples",
        symbols_[0].name, symbols_[1].name);
}

/// All ways to compute a size from the symbols: k s, k s t, s + c, s + t + c.
std::vector<Emitter::Formula> Emitter::formulas(const Size& size) const {
  std::vector<Formula> out;
  // Adds the formula if size = factor * base in every example.
  auto multiple = [&](const Size& base, int first, int second) {
    if (base[0] == 0 || size[0] == 0 || size[0] % base[0] != 0) return;
    const int64_t factor = size[0] / base[0];
    for (size_t run = 0; run < size.size(); ++run)
      if (size[run] != factor * base[run]) return;
    out.push_back({first, second, false, factor, 0});
  };
  auto sum = [&](Size base, int first, int second) {
    for (size_t run = 0; run < size.size(); ++run) base[run] = size[run] - base[run];
    if (is_fixed(base) && (second >= 0 || base[0] != 0))
      out.push_back({first, second, true, 1, base[0]});
  };
  const int n = static_cast<int>(symbols_.size());
  for (int i = 0; i < n; ++i) {
    const Size& s = symbols_[static_cast<size_t>(i)].size;
    multiple(s, i, -1);
    sum(s, i, -1);
    for (int j = i; j < n; ++j) {
      const Size& t = symbols_[static_cast<size_t>(j)].size;
      Size product = s, total = s;
      for (size_t run = 0; run < size.size(); ++run) product[run] *= t[run], total[run] += t[run];
      multiple(product, i, j);
      if (i != j) sum(total, i, j);
    }
  }
  // With an offset that is free much fits by chance: the symbol itself is likelier.
  auto is_symbol = [](const Formula& f) { return f.second < 0 && f.factor == 1 && f.offset == 0; };
  if (std::any_of(out.begin(), out.end(), is_symbol))
    std::erase_if(out, [](const Formula& f) { return f.offset != 0; });
  return out;
}

std::string Emitter::text(const Formula& f) const {
  std::string out = f.factor == 1 ? "" : fmt::format("{}*", f.factor);
  out += symbols_[static_cast<size_t>(f.first)].name;
  if (f.second >= 0) out += (f.adds ? "+" : "*") + symbols_[static_cast<size_t>(f.second)].name;
  return f.offset == 0 ? out : fmt::format("{}{:+}", out, f.offset);
}

std::string Emitter::text(const Size& size, Value::Origin origin) const {
  if (is_fixed(size)) return fmt::format("{}", size[0]);
  for (const Symbol& s : symbols_)
    if (origin == Value::Origin::input && s.of_input && s.size == size) return s.name;
  const std::vector<Formula> found = formulas(size);
  return found.size() == 1 ? text(found[0]) : "?";
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
  std::string& made =
      made_[fmt::format("size {} {} {} {} {}", f.first, f.second, f.adds, f.factor, f.offset)];
  if (!made.empty()) return made;
  auto symbol = [&](int i) {
    const Symbol& s = symbols_[static_cast<size_t>(i)];
    std::string& known = made_[fmt::format("symbol {}", i)];
    if (known.empty())
      known = node("Shape", {s.tensor},
                   {{"start", int64_t{s.axis}}, {"end", static_cast<int64_t>(s.axis) + 1}});
    return known;
  };
  std::string out = symbol(f.first);
  if (f.second >= 0) out = node(f.adds ? "Add" : "Mul", {out, symbol(f.second)});
  if (f.factor != 1) out = node("Mul", {out, ints({f.factor})});
  if (f.offset != 0) out = node("Add", {out, ints({f.offset})});
  return made = out;
}

std::string Emitter::scalar(const char* property) {
  const Size& s = sizes(property).at(0);
  if (is_fixed(s)) return whole(s[0], DType::i64);
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

// Reshape takes 0 for "as before", unless a size is 0, and one -1 for "what is left". Only if two
// sizes or more remain, they are computed.
std::string Emitter::reshaped(const std::string& x, const std::vector<Size>& from,
                              const std::vector<Size>& to) {
  auto is_zero = [](const Size& s) { return is_fixed(s) && s[0] == 0; };
  if (std::any_of(to.begin(), to.end(), is_zero))
    return node("Reshape", {x, shape(to)}, {{"allowzero", int64_t{1}}});
  std::vector<Size> sizes = to;
  Size* left = nullptr;
  for (size_t i = 0; i < to.size(); ++i) {
    if (is_fixed(to[i])) continue;
    if (i < from.size() && from[i] == to[i])
      sizes[i] = Size(to[i].size(), 0);
    else
      left = &sizes[i];
  }
  if (left) *left = Size(left->size(), -1);
  return node("Reshape", {x, shape(sizes)});
}

// ---- The file ----------------------------------------------------------------------------------

Message Emitter::info(const std::string& name, const Value& v) const {
  Message shape;
  for (const Size& size : v.shape) {
    Message dim;
    if (is_fixed(size))
      dim.add_int(field::kDimValue, size[0]);
    else if (const std::string formula = text(size, v.origin); formula != "?")
      dim.add_bytes(field::kDimParam, formula);
    shape.add_message(field::kDim, dim);
  }
  Message tensor;
  tensor.add_int(field::kElemType, type_number(v.dtype)).add_message(field::kShape, shape);
  return Message()
      .add_bytes(field::kInfoName, name)
      .add_message(field::kInfoType, Message().add_message(field::kTensorType, tensor));
}

/// Gives the outputs their names by Identity nodes.
void Emitter::name_outputs() {
  call_ = nullptr;
  for (size_t i = 0; i < trace_.outputs.size(); ++i) {
    const std::string& out = options_.outputs[i];
    Message m;
    m.add_bytes(field::kNodeInput, name(trace_.outputs[i])).add_bytes(field::kNodeOutput, out);
    m.add_bytes(field::kNodeName, "/output_" + out).add_bytes(field::kOpType, "Identity");
    nodes_.push_back(m.bytes());
  }
}

/// "x f32 (N, 3), a, b i64 (N)"; of more than two tensors of one kind the first and the last.
std::string Emitter::signature(const std::vector<std::string>& names,
                               const std::vector<int>& ids) const {
  std::vector<std::string> kinds;
  for (int id : ids) {
    std::vector<std::string> sizes;
    for (const Size& size : value(id).shape) sizes.push_back(text(size, value(id).origin));
    kinds.push_back(fmt::format("{} ({})", value(id).dtype, fmt::join(sizes, ", ")));
  }
  std::string out;
  for (size_t i = 0, next = 0; i < ids.size(); i = next) {
    while (next < ids.size() && kinds[next] == kinds[i]) ++next;
    out += (i == 0 ? "" : ", ") + names[i];
    if (next - i > 1) out += (next - i == 2 ? ", " : " ... ") + names[next - 1];
    out += " " + kinds[i];
  }
  return out;
}

Message Emitter::model_head(size_t graph_bytes) const {
  Message m;
  m.add_int(field::kIrVersion, opset() == 17 ? 8 : 11).add_bytes(field::kProducer, "tern");
  m.add_bytes(field::kProducerVersion, kVersion);
  m.add_message(field::kOpset, Message().add_int(field::kOpsetVersion, opset()));
  for (const auto& [key, text] : options_.metadata)
    m.add_message(field::kMetadata, entry(key, text));
  return m.begin_bytes(field::kGraph, graph_bytes);
}

// Bytes of weights go from the tensors to the file, so that a large model is not twice in memory.
std::string Emitter::write(const std::string& path) {
  constexpr int64_t kMost = 2'000'000'000, kPage = 4096;  // a message holds less than 2 GiB
  name_outputs();
  const std::vector<std::string>& outputs = options_.outputs;
  std::vector<std::string> inputs;
  for (int id : trace_.inputs) inputs.push_back(names_.at(id));
  Message front, back;  // of the graph, around the weights
  front.add_bytes(field::kGraphName, "tern");
  for (const std::string& n : nodes_) front.add_bytes(field::kNode, n);
  for (size_t i = 0; i < inputs.size(); ++i)
    back.add_message(field::kInput, info(inputs[i], value(trace_.inputs[i])));
  for (size_t i = 0; i < outputs.size(); ++i)
    back.add_message(field::kOutput, info(outputs[i], value(trace_.outputs[i])));

  int64_t all = 0, offset = 0;
  for (const auto& [name, t] : weights_) all += bytes_of(t);
  const bool apart = options_.separate_weights || all > kMost;
  auto is_apart = [&](const Tensor& t) { return apart && t.numel() > kSmall; };
  const std::string data_path = path + ".data",
                    data_file = std::filesystem::path(data_path).filename().string();
  size_t size = front.bytes().size() + back.bytes().size();
  std::vector<std::string> heads;
  for (const auto& [name, t] : weights_) {
    const int64_t bytes = bytes_of(t);
    heads.push_back(weight_head(name, t, is_apart(t) ? data_file : "", offset));
    size += heads.back().size() + (is_apart(t) ? 0 : static_cast<size_t>(bytes));
    offset += is_apart(t) ? ceil_div(bytes, kPage) * kPage : 0;
  }
  AtomicFiles own, &files = options_.files ? *options_.files : own;
  AtomicFile* const data = apart ? &files.add(data_path) : nullptr;
  AtomicFile& file = files.add(path);
  file.write(model_head(size).bytes());
  file.write(front.bytes());
  for (size_t i = 0; i < weights_.size(); ++i) {
    file.write(heads[i]);
    const Tensor& t = weights_[i].second;
    with_bytes(t, [&](std::string_view raw) { (is_apart(t) ? *data : file).write(raw); });
    if (is_apart(t))
      data->write(std::string(static_cast<size_t>(-bytes_of(t) & (kPage - 1)), '\0'));
  }
  file.write(back.bytes());
  own.commit();
  return signature(inputs, trace_.inputs) + " to " + signature(outputs, trace_.outputs);
}

}  // namespace tern::onnx
