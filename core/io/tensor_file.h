// Reads files of weights of any format that tern knows: safetensors, and PyTorch's .pt, .pth and
// .bin (torch_file.h).
//
//   nn::load_state_dict(model, load_tensors("model.pt").tensors);
#pragma once

#include <string>

#include "tern/core/io/safetensors.h"

namespace tern {

/// load_torch() if the file begins as a zip archive or a pickle, else load_safetensors(): the name
/// does not matter. If the file does not exist, but PATH.index.json does, reads the shards that
/// this index names (model.safetensors, pytorch_model.bin). The same limits and errors.
SafeTensors load_tensors(const std::string& path, const SafeTensorsLimits& limits = {});

/// Whether the file begins as one of PyTorch's. False if there is none.
bool is_torch_file(const std::string& path);

/// The file of weights in a folder of transformers, which may be an index of shards:
/// model.safetensors, or pytorch_model.bin if only that is there.
std::string find_weights(const std::string& folder);

}  // namespace tern
