// Files of other formats that are taken for safetensors. Inside of core only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tern::detail {

/// So many bytes of a file are enough to tell what it is.
inline constexpr int64_t kFirstBytes = 512;

/// What the file at `path` is by its first bytes, and the command that converts it where there is
/// one: "this is a PyTorch file, ...". Empty for safetensors and unknown formats. The command
/// writes the file `to`; if that is empty, a file beside `path` with the ending .safetensors.
std::string describe_foreign_file(const std::string& path, std::string_view first_bytes,
                                  const std::string& to = "");

}  // namespace tern::detail
