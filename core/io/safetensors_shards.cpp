// Reads the index of sharded safetensors, and lists the files of weights beside a missing one.
#include "tern/core/io/safetensors_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/foreign_file.h"
#include "tern/core/io/json_value.h"

namespace tern::detail {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kLargestIndex = 1 << 26;  // bytes; a model of 100,000 tensors needs 2^23

std::string first_bytes(const fs::path& path, size_t count) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(count, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

bool may_hold_weights(const fs::path& path) {
  const std::string kind = path.extension().string();
  for (const char* known : {".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".npz", ".onnx", ".pt",
                            ".pth", ".safetensors"})
    if (kind == known) return true;
  return false;
}

}  // namespace

std::string shard_index(const std::string& path) { return path + ".index.json"; }

bool is_sharded(const std::string& path) {
  std::error_code error;  // load_safetensors() reports a folder that cannot be read
  return !fs::exists(path, error) && !error && fs::exists(shard_index(path), error);
}

std::map<std::string, std::string> read_shard_index(const std::string& index) {
  std::error_code error;
  const uintmax_t size = fs::file_size(index, error);
  check_io(!error && size <= kLargestIndex, "{}: {}", index,
           error ? error.message() : fmt::format("{} bytes are too many for an index", size));
  return reading(index, [&] {
    const JsonDocument file(first_bytes(index, size));
    std::map<std::string, std::string> files;
    for (const auto& [tensor, shard] : file.root().at("weight_map").members()) {
      const std::string& name = shard.text();
      if (!name.ends_with(".safetensors") || name.find('/') != name.npos)
        shard.fail(fmt::format("'{}' is not a safetensors file in this folder", name));
      files.emplace(tensor, (fs::path(index).parent_path() / name).string());
    }
    check(!files.empty(), "its weight_map is empty");
    return files;
  });
}

std::string describe_other_weights(const std::string& missing) {
  const fs::path folder = fs::path(missing).parent_path();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, error), end; at != end;
       at.increment(error)) {
    if (error) break;
    std::error_code no;  // reading a pipe would wait
    if (may_hold_weights(at->path()) && at->is_regular_file(no))
      names.push_back(at->path().filename().string());
  }
  if (names.empty()) return "";
  std::sort(names.begin(), names.end());
  constexpr size_t kShown = 5;
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  std::string text = fmt::format("; beside it: {}{}", fmt::join(names, ", "),
                                 more > 0 ? fmt::format(" and {} more", more) : "");
  if (names.size() > 1) return text;
  const std::string other = (folder / names[0]).string();
  const std::string foreign =
      describe_foreign_file(other, first_bytes(other, static_cast<size_t>(kFirstBytes)), missing);
  return foreign.empty() ? text : fmt::format("{}: {}", text, foreign);
}

}  // namespace tern::detail
