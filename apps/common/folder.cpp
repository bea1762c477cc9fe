#include "tern/apps/common/folder.h"

#include <filesystem>

#include "tern/core/base/error.h"

namespace tern::apps {

namespace fs = std::filesystem;

void check_folder(const std::string& path, const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  check_io(status.type() != fs::file_type::not_found, "{}: there is no such folder", name);
  check_io(!error, "{}: {}", name, error.message());
  check_io(fs::is_directory(status), "{}: this is a file, not a folder", name);
}

}  // namespace tern::apps
