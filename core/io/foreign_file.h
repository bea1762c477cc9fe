// Files of other formats that are taken for safetensors. Inside of core only.
#pragma once

#include <string>
#include <string_view>

namespace tern::detail {

/// Recognises the file at `path` by its first bytes and names the command that converts it, if
/// there is one: "this is a PyTorch file, ...". Empty for unknown formats and for safetensors. `to`
/// is the file that the command writes; if empty, one beside `path` with another ending.
std::string describe_foreign_file(const std::string& path, std::string_view first_bytes,
                                  const std::string& to = "");

}  // namespace tern::detail
