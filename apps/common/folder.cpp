#include "tern/apps/common/folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

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

std::string read_small_file(const std::string& path) {
  constexpr uint64_t kLargest = 1 << 24;
  std::error_code error;
  const bool regular = fs::is_regular_file(path, error);
  check_io(regular, "{}: cannot be read: {}", path, error ? error.message() : "it is no file");
  const uint64_t size = fs::file_size(path, error);
  check_io(!error && size <= kLargest, "{}: it has {} bytes, and no such file has over {}", path,
           size, kLargest);
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  check_io(in.good() || in.eof(), "{}: cannot be read", path);
  return text;
}

}  // namespace tern::apps
