// Reads weights in several files with an index, and lists the files of weights beside a missing
// one.
#include "tern/core/io/safetensors_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/reading.h"
#include "tern/core/io/file_kind.h"
#include "tern/core/io/foreign_file.h"
#include "tern/core/io/json_value.h"

namespace tern::detail {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kLargestIndex = 1 << 26;  // bytes; a model of 100,000 tensors needs 2^23

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
  std::error_code error;  // the reader of a single file reports a folder that cannot be read
  return !fs::exists(path, error) && !error && fs::exists(shard_index(path), error);
}

std::map<std::string, std::string> read_shard_index(const std::string& index) {
  return reading(index, [&] {
    const JsonDocument file(read_json_text(index, kLargestIndex));
    std::map<std::string, std::string> files;
    for (const auto& [tensor, shard] : file.root().at("weight_map").members()) {
      const std::string& name = shard.text();
      if (!(name.ends_with(".safetensors") || name.ends_with(".bin")) ||
          name.find('/') != name.npos)
        shard.fail(fmt::format("'{}' is not a .safetensors or .bin file in this folder", name));
      files.emplace(tensor, (fs::path(index).parent_path() / name).string());
    }
    check(!files.empty(), "its weight_map is empty");
    return files;
  });
}

void open_shards(const std::string& index, int64_t most, const OpenShard& open) {
  std::map<std::string, std::string> places = read_shard_index(index);
  std::set<std::string> files;
  for (const auto& [name, file] : places) files.insert(file);
  for (const std::string& file : files) {
    const std::vector<std::string> names = open(file, most);
    most -= std::ssize(names);
    for (const std::string& name : names) {
      const auto place = places.find(name);
      check_io(place != places.end() && place->second == file,
               "{}: it holds the tensor '{:.80}', but {} does not place it there", file, name,
               index);
      places.erase(place);
    }
  }
  check_io(places.empty(), "{}: {} has no tensor '{:.80}'", index,
           places.empty() ? "" : places.begin()->second,
           places.empty() ? "" : places.begin()->first);
}

SafeTensors load_shards(const std::string& index, int64_t most, const LoadShard& load) {
  SafeTensors out;
  open_shards(index, most, [&](const std::string& file, int64_t left) {
    SafeTensors part = load(file, left);
    std::vector<std::string> names;
    for (auto& [name, tensor] : part.tensors) {
      names.push_back(name);
      out.tensors.emplace_back(name, std::move(tensor));
    }
    out.metadata.merge(part.metadata);
    return names;
  });
  return out;
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
