#include "tern/core/io/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tern/core/base/terminal_text.h"

namespace tern::detail {
namespace {

// Weights alone or in the dictionary of a checkpoint. Copies, because tensors in a safetensors file
// share no memory. weights_only: nothing in the file is run.
constexpr const char* kFromTorch =
    "import sys, torch; from safetensors.torch import save_file; "
    "d = torch.load(sys.argv[1], map_location=\"cpu\", weights_only=True); "
    "d = next((d[k] for k in (\"state_dict\", \"model\", \"model_state_dict\") "
    "if isinstance(d.get(k), dict)), d); "
    "save_file({k: v.clone().contiguous() for k, v in d.items() if torch.is_tensor(v)}, "
    "sys.argv[2])";
constexpr const char* kFromNumpy =
    "import sys, numpy; from safetensors.numpy import save_file; "
    "save_file(dict(numpy.load(sys.argv[1])), sys.argv[2])";

struct Format {
  std::string_view magic;  // a ? is any byte
  std::string_view holds;  // somewhere in the first bytes
  const char* name;
  const char* python = "";  // converts argv[1] to argv[2]
};

constexpr Format kFormats[] = {
    {"PK\3\4", ".npy", "an npz file of NumPy", kFromNumpy},
    {"PK\3\4", ".pkl", "a PyTorch file", kFromTorch},
    {"PK\3\4", "", "a zip archive"},
    {"\x80\2", "", "a PyTorch file, or another pickle of Python", kFromTorch},
    {"\x80\3", "", "a PyTorch file, or another pickle of Python", kFromTorch},
    {"\x80\4", "", "a PyTorch file, or another pickle of Python", kFromTorch},
    {"\x80\5", "", "a PyTorch file, or another pickle of Python", kFromTorch},
    {"GGUF", "", "a GGUF file of llama.cpp"},
    {"\x89HDF\r\n\x1a\n", "", "an HDF5 file, as Keras writes them"},
    {"\x93NUMPY", "", "an npy file of NumPy, one array without a name"},
    {"\x08?\x12", "", "an ONNX file"},
    {"\x08?:", "", "an ONNX file"},
    {"\x1f\x8b", "", "a gzip file (unpack it first)"},
    {"version https://git-lfs", "", "a pointer of Git LFS (`git lfs pull` fetches the file)"},
    {"{", "", "a text of JSON"},
};

bool begins_with(std::string_view bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char m, char b) { return m == '?' || m == b; });
}

}  // namespace

std::string describe_foreign_file(const std::string& path, std::string_view bytes,
                                  const std::string& to) {
  if (bytes.size() > 8 && bytes[8] == '{') return "";  // behind the length of a safetensors header
  for (const Format& f : kFormats) {
    if (!begins_with(bytes, f.magic) || bytes.find(f.holds) == bytes.npos) continue;
    const std::string what = fmt::format("this is {}; tern reads safetensors files", f.name);
    if (!*f.python) return what;
    return fmt::format(
        "{}. To convert it:\n  python3 -c '{}' {} {}", what, f.python, shell_word(path),
        shell_word(to.empty()
                       ? std::filesystem::path(path).replace_extension(".safetensors").string()
                       : to));
  }
  return "";
}

}  // namespace tern::detail
