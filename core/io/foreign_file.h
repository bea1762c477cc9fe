// Files of other formats that are taken for safetensors. Inside of core only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tern::detail {

/// So many bytes of a file are enough to tell what it is.
inline constexpr int64_t kFirstBytes = 512;

/// What the file at `path` is by its first bytes, and the command that converts it where there is
/// one: "this is a PyTorch file, ...". Empty if it is nothing known, as a safetensors file is. `to`
/// is what the command writes: if empty, a file beside it with another ending.
std::string describe_foreign_file(const std::string& path, std::string_view first_bytes,
                                  const std::string& to = "");

}  // namespace tern::detail
