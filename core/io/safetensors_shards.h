// Weights in several safetensors files with an index, as transformers writes large models. Also
// names weights in other formats where a file is missing. Inside of core only.
#pragma once

#include <map>
#include <string>

namespace tern::detail {

/// The index of the shards of `path`: "model.safetensors.index.json".
std::string shard_index(const std::string& path);
/// Whether the file `path` does not exist, but its index does.
bool is_sharded(const std::string& path);

/// Reads an index: the path of the file of each tensor, by the tensor's name. The files lie beside
/// the index. IoError if it is no index, or names a file in another folder.
std::map<std::string, std::string> read_shard_index(const std::string& index);

/// Names the files beside a missing file that may hold its weights, and if it is only one, how to
/// convert it. "" if there are none.
std::string describe_other_weights(const std::string& missing);

}  // namespace tern::detail
