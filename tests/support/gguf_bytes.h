// Writes the bytes of small GGUF files, also damaged ones, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::test {

/// The bytes of an integer or float as files store them.
template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A GGUF file whose parts a test may set to nonsense.
struct GgufBytes {
  static constexpr uint32_t kU8 = 0, kU32 = 4, kF32 = 6, kBool = 7, kText = 8, kList = 9, kU64 = 10;

  uint32_t version = 3;
  std::vector<std::string> entries, infos;
  uint64_t more_entries = 0, more_tensors = 0;  ///< counts without contents
  std::string data;

  static std::string text(const std::string& s) { return bytes_of<uint64_t>(s.size()) + s; }
  static std::string list(uint32_t kind, uint64_t count, const std::string& elements) {
    return bytes_of(kind) + bytes_of(count) + elements;
  }

  GgufBytes& add(const std::string& key, uint32_t kind, const std::string& value) {
    entries.push_back(text(key) + bytes_of(kind) + value);
    return *this;
  }
  /// `sizes` in the order of the file: the length of a row first.
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& sizes, uint32_t type,
                    uint64_t offset) {
    std::string info = text(name) + bytes_of(static_cast<uint32_t>(sizes.size()));
    for (uint64_t size : sizes) info += bytes_of(size);
    infos.push_back(info + bytes_of(type) + bytes_of(offset));
    return *this;
  }
  /// Everything before the data.
  std::string header() const {
    std::string out = "GGUF" + bytes_of(version) + bytes_of(infos.size() + more_tensors) +
                      bytes_of(entries.size() + more_entries);
    for (const std::string& entry : entries) out += entry;
    for (const std::string& info : infos) out += info;
    return out;
  }
  std::string bytes(size_t alignment = 32) const {
    std::string out = header();
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

}  // namespace tern::test
