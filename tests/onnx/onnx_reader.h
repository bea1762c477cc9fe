// A reader of ONNX files that shares no code with the writer, and a check of what a reader of such
// a file relies on.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/protobuf_reader.h"

namespace tern::test {

/// An input or output: its type, and its sizes as text ("N" if it has a name, "?" if it has none).
struct OnnxInfo {
  std::string name;
  uint64_t type = 0;
  std::vector<std::string> shape;
};

struct OnnxNode {
  std::string op, name;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Fields> attributes;

  int64_t integer(const std::string& attribute) const {
    return static_cast<int64_t>(attributes.at(attribute).find(3)->second.integer);
  }
  std::vector<int64_t> integers(const std::string& attribute) const {
    std::vector<int64_t> out;
    const Fields& fields = attributes.at(attribute);
    for (auto [i, end] = fields.equal_range(8); i != end; ++i)
      out.push_back(static_cast<int64_t>(i->second.integer));
    return out;
  }
  std::string text(const std::string& attribute) const {
    return attributes.at(attribute).find(4)->second.bytes;
  }
  float real(const std::string& attribute) const {
    return attributes.at(attribute).find(2)->second.f32();
  }
};

struct OnnxTensor {
  uint64_t type = 0;
  std::vector<int64_t> shape;
  std::string raw;

  template <class T>
  std::vector<T> values() const {
    std::vector<T> v(raw.size() / sizeof(T));
    std::memcpy(v.data(), raw.data(), raw.size());
    return v;
  }
};

inline std::vector<std::string> texts_of(const Fields& fields, uint64_t number) {
  std::vector<std::string> out;
  for (auto [i, end] = fields.equal_range(number); i != end; ++i) out.push_back(i->second.bytes);
  return out;
}

inline std::string text_of(const Fields& fields, uint64_t number) {
  const std::vector<std::string> all = texts_of(fields, number);
  REQUIRE(all.size() == 1);
  return all[0];
}

inline OnnxInfo onnx_info(const std::string& bytes) {
  const Fields info = parse_message(bytes), type = parse_message(text_of(info, 2));
  const Fields tensor = parse_message(text_of(type, 1));
  OnnxInfo out{text_of(info, 1), tensor.find(1)->second.integer, {}};
  for (const std::string& each : texts_of(parse_message(text_of(tensor, 2)), 1)) {
    const Fields dim = parse_message(each);
    if (const auto value = dim.find(1); value != dim.end())
      out.shape.push_back(std::to_string(value->second.integer));
    else
      out.shape.push_back(dim.contains(2) ? text_of(dim, 2) : "?");
  }
  return out;
}

struct OnnxFile {
  uint64_t opset = 0;
  std::vector<OnnxInfo> inputs, outputs;
  std::vector<OnnxNode> nodes;
  std::map<std::string, OnnxTensor> tensors;
  std::map<std::string, std::string> metadata;

  explicit OnnxFile(const std::string& path) {
    const Fields model = parse_message(read_file(path));
    CHECK(text_of(model, 2) == "tern");
    const Fields import = parse_message(text_of(model, 8));
    CHECK(!import.contains(1));  // the standard domain
    opset = import.find(2)->second.integer;
    CHECK(model.find(1)->second.integer == (opset == 17 ? 8 : 11));  // ir_version
    for (const std::string& each : texts_of(model, 14)) {
      const Fields entry = parse_message(each);
      metadata[text_of(entry, 1)] = text_of(entry, 2);
    }
    const Fields graph = parse_message(text_of(model, 7));
    for (const std::string& each : texts_of(graph, 11)) inputs.push_back(onnx_info(each));
    for (const std::string& each : texts_of(graph, 12)) outputs.push_back(onnx_info(each));
    for (const std::string& each : texts_of(graph, 5)) add_tensor(parse_message(each), path);
    for (const std::string& each : texts_of(graph, 1)) add_node(parse_message(each));
    check_graph();
  }

  std::vector<std::string> ops() const {
    std::vector<std::string> out;
    for (const OnnxNode& n : nodes)
      if (n.op != "Identity") out.push_back(n.op);
    return out;
  }
  const OnnxNode& node(const std::string& op) const {
    for (const OnnxNode& n : nodes)
      if (n.op == op) return n;
    FAIL("no node " << op);
    return nodes[0];
  }

 private:
  void add_tensor(const Fields& fields, const std::string& path) {
    const bool apart = fields.contains(14) && fields.find(14)->second.integer == 1;
    OnnxTensor t{
        fields.find(2)->second.integer, {}, apart ? read_apart(fields, path) : text_of(fields, 9)};
    int64_t bytes = t.type == 1 ? 4 : t.type == 2 ? 1 : 8;
    for (auto [i, end] = fields.equal_range(1); i != end; ++i) {
      t.shape.push_back(static_cast<int64_t>(i->second.integer));
      bytes *= t.shape.back();
    }
    const std::string name = text_of(fields, 8);
    CHECK_MESSAGE(bytes == std::ssize(t.raw), name);
    CHECK_MESSAGE(tensors.emplace(name, t).second, name, " is there twice");
  }

  /// Elements in another file of the model's folder.
  static std::string read_apart(const Fields& fields, const std::string& path) {
    std::map<std::string, std::string> where;
    for (const std::string& each : texts_of(fields, 13)) {
      const Fields entry = parse_message(each);
      where[text_of(entry, 1)] = text_of(entry, 2);
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    const std::string all = read_file((folder / where.at("location")).string());
    const size_t offset = std::stoul(where.at("offset")), length = std::stoul(where.at("length"));
    REQUIRE(offset + length <= all.size());
    CHECK(offset % 4096 == 0);  // programs may map it
    return all.substr(offset, length);
  }

  void add_node(const Fields& fields) {
    OnnxNode n{
        text_of(fields, 4), text_of(fields, 3), texts_of(fields, 1), texts_of(fields, 2), {}};
    for (const std::string& each : texts_of(fields, 5)) {
      const Fields attribute = parse_message(each);
      n.attributes[text_of(attribute, 1)] = attribute;
    }
    nodes.push_back(std::move(n));
  }

  /// Every name is made once and before it is used, and every initializer is used.
  void check_graph() const {
    std::set<std::string> known, used, names;
    for (const OnnxInfo& i : inputs) CHECK(known.insert(i.name).second);
    for (const auto& [name, t] : tensors) CHECK(known.insert(name).second);
    for (const OnnxNode& n : nodes) {
      CHECK_MESSAGE(names.insert(n.name).second, n.name);
      for (const std::string& name : n.inputs) {
        if (name.empty()) continue;  // an input that is left out
        CHECK_MESSAGE(known.contains(name), n.name, " uses ", name);
        used.insert(name);
      }
      for (const std::string& name : n.outputs) CHECK_MESSAGE(known.insert(name).second, name);
    }
    for (const OnnxInfo& o : outputs) CHECK_MESSAGE(known.contains(o.name), o.name);
    for (const auto& tensor : tensors) CHECK_MESSAGE(used.contains(tensor.first), tensor.first);
  }
};

}  // namespace tern::test
