// Weights in several safetensors files with an index, as transformers writes large models, and
// hints for errors about missing files. Inside of core only.
#pragma once

#include <map>
#include <string>

namespace tern::detail {

/// The index of the shards of `path`: "model.safetensors.index.json".
std::string shard_index(const std::string& path);
/// Whether the file `path` does not exist, but its index does.
bool is_sharded(const std::string& path);

/// Reads an index: the path of the file of each tensor, by the tensor's name. The files lie in the
/// index's folder. IoError if it is not an index, or names a file in another folder.
std::map<std::string, std::string> read_shard_index(const std::string& index);

/// Lists the files in the folder of a missing file of weights that may have the same weights in
/// another format, and says how to convert them. "" if there is none.
std::string describe_other_weights(const std::string& missing);

}  // namespace tern::detail
