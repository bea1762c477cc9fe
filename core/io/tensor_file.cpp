// Chooses the reader of a file of weights by its first bytes.
#include "tern/core/io/tensor_file.h"

#include <filesystem>
#include <memory>

#include "tern/core/io/file_kind.h"
#include "tern/core/io/random_file.h"
#include "tern/core/io/safetensors_shards.h"
#include "tern/core/io/torch_file.h"
#include "tern/core/ops/ops.h"

namespace tern {

bool is_torch_file(const std::string& path) {
  std::error_code error;  // the reader says what is wrong
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const std::string first = RandomFile(path).first_bytes(kFirstBytes);
  if (first.size() > 8 && first[8] == '{')
    return false;  // safetensors: the header after its length
  const FileKind kind = file_kind(first);
  return kind == FileKind::torch_zip || kind == FileKind::zip || kind == FileKind::pickle;
}

namespace {

SafeTensors load_tensor_file(const std::string& path, int64_t most) {
  return is_torch_file(path) ? load_torch(path, {.tensors = most})
                             : load_safetensors(path, {.tensors = most});
}

}  // namespace

SafeTensors load_tensors(const std::string& path, const SafeTensorsLimits& limits) {
  if (!detail::is_sharded(path)) return load_tensor_file(path, limits.tensors);
  return detail::load_shards(detail::shard_index(path), limits.tensors, load_tensor_file);
}

TensorSource open_tensors(const std::string& path, const SafeTensorsLimits& limits) {
  TensorSource out;
  if (!is_torch_file(path) && (!detail::is_sharded(path) || path.ends_with(".safetensors"))) {
    const auto file = std::make_shared<const SafeTensorsFile>(path, limits);
    for (const std::string& name : file->names()) out.tensors.emplace_back(name, file->shape(name));
    out.load = [file](const std::string& name) { return file->load(name); };
    out.load_rows = [file](const std::string& name, int64_t begin, int64_t end) {
      return file->load_rows(name, begin, end);
    };
    return out;
  }
  const auto all = std::make_shared<const SafeTensors>(load_tensors(path, limits));
  for (const auto& [name, t] : all->tensors) out.tensors.emplace_back(name, t.shape());
  out.load = [all](const std::string& name) { return all->find(name); };
  out.load_rows = [all](const std::string& name, int64_t begin, int64_t end) {
    return narrow(all->find(name), 0, begin, end - begin);
  };
  return out;
}

std::string find_weights(const std::string& folder) {
  const std::string safe = folder + "/model.safetensors", torch = folder + "/pytorch_model.bin";
  auto is_there = [](const std::string& path) {
    std::error_code error;  // a folder that cannot be read: the reader says so
    return std::filesystem::exists(path, error) || detail::is_sharded(path);
  };
  return !is_there(safe) && is_there(torch) ? torch : safe;
}

}  // namespace tern
