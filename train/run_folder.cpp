// Makes the folder of a run, detects a run in it, and writes its log.
#include "tern/train/run_folder.h"

#include <filesystem>
#include <system_error>

#include "tern/core/base/error.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/io/safetensors.h"

namespace tern::training {

namespace fs = std::filesystem;

bool RunFolder::holds_run() const {
  std::error_code error;
  if (fs::exists(checkpoint(), error) || fs::exists(weights(), error)) return true;
  // A run that ended before its first checkpoint may have left an empty log.
  return fs::exists(log(), error) && fs::file_size(log(), error) > 0;
}

void RunFolder::make() const {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && fs::is_directory(path)) return;
  throw WriteError(fmt::format("{}: the folder of the run cannot be made: {}", path,
                               error ? error.message() : "it is not a folder"));
}

void RunFolder::write_log(const std::vector<std::string>& lines) const {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  write_file_atomically(log(), text);
}

void RunFolder::append_log(const std::string& line) const {
  tern::detail::append_to_file(log(), line + "\n");
}

RunFolder make_new_folder(const std::string& path) {
  fs::path above = fs::path(path).parent_path();
  if (!above.empty()) RunFolder{above.string()}.make();
  for (int i = 1;; ++i) {
    RunFolder folder{i == 1 ? path : fmt::format("{}-{}", path, i)};
    std::error_code error;
    if (fs::create_directory(folder.path, error)) return folder;
    if (error && error != std::errc::file_exists)
      throw WriteError(fmt::format("{}: the folder of the run cannot be made: {}", folder.path,
                                   error.message()));
  }
}

}  // namespace tern::training
