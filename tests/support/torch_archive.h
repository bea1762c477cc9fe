// Makes PyTorch files of opcodes, for tests: hostile ones, and copies of other files of weights.
#pragma once

#include "tern/core/io/state.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::torch {

// Opcodes of a pickle of protocol 2, and what they make.

inline std::string number(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i));
  return out;
}
inline std::string text(const std::string& s) { return "X" + number(s.size(), 4) + s; }
inline std::string integer(int64_t n) { return "\x8a\x08" + number(static_cast<uint64_t>(n), 8); }
inline std::string global(const std::string& name) {
  const size_t dot = name.rfind('.');
  return "c" + name.substr(0, dot) + "\n" + name.substr(dot + 1) + "\n";
}
inline std::string tuple(const std::string& items) { return "(" + items + "t"; }
inline std::string call(const std::string& function, const std::string& arguments) {
  return global(function) + tuple(arguments) + "R";
}
inline std::string dict(const std::string& items) { return "}(" + items + "u"; }
inline std::string pickle(const std::string& value) { return "\x80\2" + value + "."; }
inline std::string storage(const std::string& type, const std::string& name, int64_t count) {
  return tuple(text("storage") + global(type) + text(name) + text("cpu") + integer(count)) + "Q";
}
inline const std::string kEnd = "\x89" + call("collections.OrderedDict", "");
inline std::string tensor_of(const std::string& storage, const std::string& offset,
                             const std::string& shape, const std::string& strides,
                             const std::string& end = kEnd) {
  return call("torch._utils._rebuild_tensor_v2",
              storage + offset + tuple(shape) + tuple(strides) + end);
}
using Members = std::vector<std::pair<std::string, std::string>>;

/// The bytes of a zip archive of these members, stored, without checksums.
inline std::string zip_of(const Members& members) {
  std::string out, central;
  for (const auto& [name, bytes] : members) {
    const std::string at = number(out.size(), 4), zeros(12, '\0');
    const std::string sizes = number(bytes.size(), 4) + number(bytes.size(), 4);
    const std::string both = "\x14" + zeros.substr(0, 11) + zeros.substr(0, 2) + sizes +
                             number(name.size(), 2) + zeros.substr(0, 2);
    out += "PK\3\4" + both + name + bytes;
    central += "PK\1\2\x14" + zeros.substr(0, 1) + both + zeros.substr(0, 10) + at + name;
  }
  const std::string count = number(members.size(), 2);
  return out + central + "PK\5\6" + number(0, 4) + count + count + number(central.size(), 4) +
         number(out.size(), 4) + number(0, 2);
}

inline std::string archive(const std::string& path, const Members& members) {
  return write_file(path, zip_of(members));
}

/// What torch.save writes for these tensors of f32, f64 and i64.
inline std::string save(const std::string& path, const NamedTensors& tensors) {
  Members members = {{"archive/data.pkl", ""}};
  std::string items;
  for (const auto& entry : tensors) {
    const std::string& name = entry.first;
    const Tensor& t = entry.second;
    const std::string number = std::to_string(members.size() - 1);
    const std::string type = t.dtype() == DType::i64   ? "torch.LongStorage"
                             : t.dtype() == DType::f64 ? "torch.DoubleStorage"
                                                       : "torch.FloatStorage";
    std::string shape, strides;
    for (int64_t n : t.shape()) shape += integer(n);
    for (int64_t n : contiguous_strides(t.shape())) strides += integer(n);
    items += text(name) + tensor_of(storage(type, number, t.numel()), integer(0), shape, strides);
    dispatch(t.dtype(), [&]<class T>() {
      const std::vector<T> elements = t.to_vector<T>();
      members.emplace_back(
          "archive/data/" + number,
          std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)));
    });
  }
  members[0].second = pickle(dict(items));
  return archive(path, members);
}

}  // namespace tern::test::torch
