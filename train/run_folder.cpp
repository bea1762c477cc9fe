#include "tern/train/run_folder.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"

namespace tern::train {

namespace fs = std::filesystem;

bool RunFolder::holds_run() const {
  std::error_code error;
  for (const std::string& name : {checkpoint(), log(), weights()})
    if (fs::exists(name, error)) return true;
  return false;
}

void RunFolder::make() const {
  std::error_code error;
  fs::create_directories(path, error);
  check_io(!error && fs::is_directory(path), "{}: the folder of the run cannot be made: {}", path,
           error ? error.message() : "it is no folder");
}

void RunFolder::write_log(const std::vector<std::string>& lines) const {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  write_file_atomically(log(), text);
}

void RunFolder::append_log(const std::string& line) const {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(log().c_str(), "a"), std::fclose);
  bool ok =
      file && std::fputs((line + "\n").c_str(), file.get()) >= 0 && std::fflush(file.get()) == 0;
  check_io(ok, "{}: cannot be written: {}", log(), std::generic_category().message(errno));
}

RunFolder make_new_folder(const std::string& path) {
  fs::path above = fs::path(path).parent_path();
  if (!above.empty()) RunFolder{above.string()}.make();
  for (int i = 1;; ++i) {
    RunFolder folder{i == 1 ? path : fmt::format("{}-{}", path, i)};
    std::error_code error;
    if (fs::create_directory(folder.path, error)) return folder;
    check_io(!error || error == std::errc::file_exists,
             "{}: the folder of the run cannot be made: "
             "{}",
             folder.path, error.message());
  }
}

}  // namespace tern::train
