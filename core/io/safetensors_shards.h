// Weights in several files (safetensors or PyTorch's) with an index, as transformers writes large
// models, and hints for errors about missing files. Inside of core only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tern/core/io/safetensors.h"

namespace tern::detail {

/// The index of the shards of `path`: "model.safetensors.index.json".
std::string shard_index(const std::string& path);
/// Whether the file `path` does not exist, but its index does.
bool is_sharded(const std::string& path);

/// Reads an index: the path of the file of each tensor, by the tensor's name. The files lie in the
/// index's folder. IoError if it is not an index, or names a file in another folder.
std::map<std::string, std::string> read_shard_index(const std::string& index);

/// Opens a shard with at most so many tensors, and returns their names.
using OpenShard = std::function<std::vector<std::string>(const std::string& file, int64_t most)>;

/// Opens all shards of an index. The index and the shards must agree on every tensor: it is an
/// IoError if a tensor is in no shard, or not in the shard that the index names.
void open_shards(const std::string& index, int64_t most, const OpenShard& open);

/// Reads a shard with at most so many tensors.
using LoadShard = std::function<SafeTensors(const std::string& file, int64_t most)>;
/// Reads all shards, with the checks of open_shards().
SafeTensors load_shards(const std::string& index, int64_t most, const LoadShard& load);

/// Lists the files in the folder of a missing file of weights that may have the same weights in
/// another format, and says how to convert them. "" if there is none.
std::string describe_other_weights(const std::string& missing);

}  // namespace tern::detail
