#include "tern/apps/common/folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tern/apps/common/run_record.h"
#include "tern/core/base/error.h"
#include "tern/core/base/terminal_text.h"

namespace tern::apps {

namespace fs = std::filesystem;

namespace {

// The program that made the run in the folder; empty if that does not say.
std::string program_of(const train::RunFolder& folder) {
  try {
    const std::optional<RunRecord> record = load_run_record(folder);
    return record ? record->program : "";
  } catch (const IoError&) {
    return "";
  }
}

}  // namespace

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

void check_program(const std::string& program, const std::string& flag, const std::string& path) {
  std::string folder = path;
  if (path.ends_with(".safetensors")) folder = fs::path(path).parent_path();
  const std::string made_by = program_of({folder.empty() ? "." : folder});
  if (made_by.empty() || made_by == program) return;
  // A program that only trains is called so.
  const std::string train = made_by.starts_with("train") ? made_by : made_by + " train";
  const std::string remedy =
      flag == "--resume" ? fmt::format("{} --resume {} continues it", train, shell_word(path))
                         : fmt::format("{} --help says how to use it", made_by);
  fail_io(fmt::format("{} {}: this is a run of {}, not of {}; {}", flag, path, made_by, program,
                      remedy));
}

}  // namespace tern::apps
