// Error texts for files of other formats where weights are expected. Inside of core only.
#pragma once

#include <string>
#include <string_view>

namespace tern::detail {

/// Recognises the file at `path` by its first bytes and names the command that converts it, if
/// there is one: "this is a PyTorch file, ...". Empty for unknown formats and for safetensors. `to`
/// is the file that the command writes; by default `path` with the ending .safetensors.
std::string describe_foreign_file(const std::string& path, std::string_view first_bytes,
                                  const std::string& to = "");

/// ". To convert it: ...": the command that writes the weights of a TorchScript archive as
/// safetensors.
std::string convert_torch_script(const std::string& path);

}  // namespace tern::detail
