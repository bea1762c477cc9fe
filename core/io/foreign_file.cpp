// For each foreign file format, the Python command or the advice that an error gives.
#include "tern/core/io/foreign_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "tern/core/base/terminal_text.h"
#include "tern/core/io/file_kind.h"

namespace tern::detail {
namespace {

// Converts plain weights, or those in the dictionary of a checkpoint. Copies them, because tensors
// in a safetensors file share no memory. With weights_only, PyTorch runs no code of the file.
constexpr const char* kFromTorch =
    "import sys, torch; from safetensors.torch import save_file; "
    "d = torch.load(sys.argv[1], map_location=\"cpu\", weights_only=True); "
    "d = next((d[k] for k in (\"state_dict\", \"model\", \"model_state_dict\") "
    "if isinstance(d.get(k), dict)), d); "
    "save_file({k: v.clone().contiguous() for k, v in d.items() if torch.is_tensor(v)}, "
    "sys.argv[2])";
constexpr const char* kFromTorchScript =
    "import sys, torch; from safetensors.torch import save_file; "
    "d = torch.jit.load(sys.argv[1], map_location=\"cpu\").state_dict(); "
    "save_file({k: v.clone().contiguous() for k, v in d.items()}, sys.argv[2])";
constexpr const char* kFromNumpy =
    "import sys, numpy; from safetensors.numpy import save_file; "
    "save_file(dict(numpy.load(sys.argv[1])), sys.argv[2])";

/// Help for a file of this kind: Python code that converts argv[1] to argv[2], or words.
struct Remedy {
  FileKind kind;
  const char* python = "";
  const char* words = "";
};

constexpr Remedy kRemedies[] = {
    {.kind = FileKind::npz, .python = kFromNumpy},
    {.kind = FileKind::pickle, .python = kFromTorch},
    {.kind = FileKind::gguf, .words = " (GgufFile reads it)"},
    {.kind = FileKind::gzip, .words = " (unpack it first)"},
    {.kind = FileKind::git_lfs, .words = " (`git lfs pull` fetches the file)"},
};

std::string conversion(const char* python, const std::string& path, const std::string& to) {
  const std::string safe = std::filesystem::path(path).replace_extension(".safetensors").string();
  return fmt::format(". To convert it:\n  python3 -c '{}' {} {}", python, shell_word(path),
                     shell_word(to.empty() ? safe : to));
}

Remedy remedy_for(FileKind kind) {
  for (const Remedy& r : kRemedies)
    if (r.kind == kind) return r;
  return {kind};
}

}  // namespace

std::string describe_foreign_file(const std::string& path, std::string_view bytes,
                                  const std::string& to) {
  if (bytes.size() > 8 && bytes[8] == '{') return "";  // safetensors: the header after its length
  const FileKind kind = file_kind(bytes);
  if (kind == FileKind::unknown) return "";
  if (kind == FileKind::torch_zip) return "this is a PyTorch file, which load_tensors() reads";
  const Remedy remedy = remedy_for(kind);
  const std::string what = fmt::format("this is {}{}; tern reads safetensors and PyTorch files",
                                       name(kind), remedy.words);
  return *remedy.python ? what + conversion(remedy.python, path, to) : what;
}

std::string convert_torch_script(const std::string& path) {
  return conversion(kFromTorchScript, path, "");
}

}  // namespace tern::detail
