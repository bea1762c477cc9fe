// Weights in several safetensors files with an index, as transformers writes large models, and what
// else may lie where weights are missing. Inside of core only.
#pragma once

#include <map>
#include <string>

namespace tern::detail {

/// The index of the shards of `path`: "model.safetensors.index.json".
std::string shard_index(const std::string& path);
/// Whether there is no file `path`, but its index.
bool is_sharded(const std::string& path);

/// The file of each tensor by the tensor's name, from an index. The files lie beside it. IoError if
/// it is no index, or names a file in another folder.
std::map<std::string, std::string> read_shard_index(const std::string& index);

/// What lies beside a missing file of weights and may be the same weights in another format; how to
/// convert it. "" if there is nothing.
std::string describe_other_weights(const std::string& missing);

}  // namespace tern::detail
