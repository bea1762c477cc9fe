// The header of a safetensors file: JSON with the types, shapes and offsets of tensors.
// Inside of core only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/base/shape.h"

namespace tern::detail {

/// A tensor in the header. Bytes [begin, end) count from the end of the header.
struct SafeTensorsEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;  ///< begin, end
};

struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;  ///< in the order of the header
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON without building a tree, and accepts only the form that the format allows:
/// checks depth, types, keys and duplicates while reading. On failure `error` names the fault and
/// its position in `json`; otherwise it is empty. More than `most` tensors are an error.
SafeTensorsHeader parse_safetensors_header(std::string_view json, std::string& error,
                                           int64_t most = INT64_MAX);

/// The JSON of `header`, padded with spaces so that 8 + its length is a multiple of 8.
std::string format_safetensors_header(const SafeTensorsHeader& header);

}  // namespace tern::detail
