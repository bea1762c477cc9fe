// Reads files of weights of any format that tern knows: safetensors, and PyTorch's .pt, .pth and
// .bin (torch_file.h).
//
//   nn::load_state_dict(model, load_tensors("model.pt").tensors);
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/io/safetensors.h"

namespace tern {

/// load_torch() if the file begins as a zip archive or a pickle, else load_safetensors(): the name
/// does not matter. If the file does not exist, but PATH.index.json does, reads the shards that
/// this index names (model.safetensors, pytorch_model.bin). The same limits and errors.
SafeTensors load_tensors(const std::string& path, const SafeTensorsLimits& limits = {});

/// The tensors of a file, which are read when they are asked for.
struct TensorSource {
  std::vector<std::pair<std::string, Shape>> tensors;  ///< in the order of the file
  std::function<Tensor(const std::string& name)> load;
  /// Rows [begin, end) of a tensor with two axes or more.
  std::function<Tensor(const std::string& name, int64_t begin, int64_t end)> load_rows;
};
/// Opens the files of load_tensors(), with the same errors. PyTorch's are read whole and stay in
/// memory.
TensorSource open_tensors(const std::string& path, const SafeTensorsLimits& limits = {});

/// Whether the file begins as one of PyTorch's. False if there is none.
bool is_torch_file(const std::string& path);

/// The file of weights in a folder of transformers, which may be an index of shards:
/// model.safetensors, or pytorch_model.bin if only that is there.
std::string find_weights(const std::string& folder);

}  // namespace tern
