// Reading and writing safetensors files: the format PyTorch's ecosystem keeps weights in.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Named tensors in order, and free text beside them.
struct SafeTensors {
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  /// The tensor of that name; undefined if there is none.
  Tensor find(const std::string& name) const;
};

/// Reads a whole file. The file is not trusted: sizes, offsets, overlaps, shapes and types are
/// checked before anything is allocated; IoError names the file and what is wrong with it.
/// F16 and BF16 are widened to f32, BOOL becomes u8, I32 becomes i64.
SafeTensors load_safetensors(const std::string& path);

/// Writes to a temporary file beside `path`, syncs it and renames it, so that `path` holds either
/// the old or the new content, whole. `begun` is called once the folder is open, where the file
/// will be even if the folder is moved; if it throws, nothing is written.
void save_safetensors(const std::string& path, const SafeTensors& content,
                      const std::function<void()>& begun = {});

/// The same for any bytes (used by checkpoints, logs and reports).
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace tern
