#include "tern/apps/common/checkpoint.h"

#include <zlib.h>

#include <utility>

namespace tern::apps {
namespace {

constexpr const char* kKey = "checksum";

uint32_t add_bytes(uint32_t crc, const void* data, size_t size) {
  return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef*>(data), size));
}

uint32_t add_text(uint32_t crc, const std::string& text) {
  uint64_t size = text.size();
  return add_bytes(add_bytes(crc, &size, sizeof size), text.data(), text.size());
}

// Over names, types, shapes and bytes of all tensors and all metadata but the checksum itself.
std::string checksum(const SafeTensors& content) {
  uint32_t crc = 0;
  for (const auto& [key, value] : content.metadata)
    if (key != kKey) crc = add_text(add_text(crc, key), value);
  for (const auto& [name, t] : content.tensors) {
    crc = add_text(crc, fmt::format("{} {} {}", name, t.dtype(), t.shape()));
    Tensor c = t.contiguous();
    dispatch(c.dtype(), [&]<class T>() {
      crc = add_bytes(crc, c.numel() ? c.data<T>() : nullptr,
                      static_cast<size_t>(c.numel()) * sizeof(T));
    });
  }
  return fmt::format("{:08x}", crc);
}

}  // namespace

void save_checkpoint(const std::string& path, SafeTensors content) {
  content.metadata[kKey] = checksum(content);
  save_safetensors(path, content);
}

SafeTensors load_checkpoint(const std::string& path) {
  SafeTensors content = load_safetensors(path);
  const std::string& stored = metadata(content, kKey, path);
  std::string now = checksum(content);
  check_io(stored == now, "{}: the checkpoint is damaged: its checksum is {}, but {} was written",
           path, now, stored);
  return content;
}

void append_prefixed(NamedTensors& to, const std::string& prefix, const NamedTensors& from) {
  for (const auto& [name, t] : from) to.emplace_back(prefix + name, t);
}

NamedTensors take_prefixed(const SafeTensors& content, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, t] : content.tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

const std::string& metadata(const SafeTensors& content, const std::string& key,
                            const std::string& path) {
  auto it = content.metadata.find(key);
  check_io(it != content.metadata.end(), "{}: not a checkpoint: it has no '{}'", path, key);
  return it->second;
}

}  // namespace tern::apps
