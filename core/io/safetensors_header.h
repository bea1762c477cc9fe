// The header of a safetensors file: JSON that says which tensors lie where. Inside of core only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/base/shape.h"

namespace tern::detail {

/// One tensor as the header describes it; bytes [begin, end) count from the end of the header.
struct SafeTensorsEntry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;  ///< begin, end
};

struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;  ///< in the order of the header
  std::map<std::string, std::string> metadata;
};

/// Reads the JSON without building a tree, and nothing but the one form that the format allows:
/// depth, types, keys and duplicates are checked on the way. On failure `error` says what and
/// where (a byte of `json`); it is empty otherwise.
SafeTensorsHeader parse_safetensors_header(std::string_view json, std::string& error);

/// The JSON of `header`, padded with spaces so that 8 + its length is a multiple of 8.
std::string format_safetensors_header(const SafeTensorsHeader& header);

}  // namespace tern::detail
