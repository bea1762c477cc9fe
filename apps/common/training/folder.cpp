// Checks folders that flags name: whether they exist, which program made them, and whether they
// hold weights yet.
#include "tern/apps/common/training/folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/training/run_record.h"
#include "tern/core/base/error.h"
#include "tern/core/base/terminal_text.h"

namespace tern::apps {

namespace fs = std::filesystem;

namespace {

// Whether the log has the line of an epoch. The line is written after the epoch's weights.
bool has_epoch(const std::string& log) {
  std::error_code error;
  if (!fs::is_regular_file(log, error)) return false;  // reading a pipe would block
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("{\"epoch\"")) return true;
  return false;
}

// The program that made the run in the folder; empty if its record is missing or damaged.
std::string program_of(const training::RunFolder& folder) {
  try {
    const std::optional<RunRecord> record = load_run_record(folder);
    return record ? record->program : "";
  } catch (const IoError&) {
    return "";
  }
}

// Whether a path that does not exist looks like the name of a published model: "owner/model", where
// there is no folder "owner".
bool is_hub_name(const fs::path& path) {
  std::error_code error;
  if (!path.is_relative() || std::distance(path.begin(), path.end()) != 2) return false;
  const std::string owner = path.begin()->string();
  return path.has_filename() && owner != "." && owner != ".." && owner != "runs" &&
         !fs::exists(owner, error);
}

}  // namespace

void check_folder(const std::string& path, const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  check_io(status.type() != fs::file_type::not_found, "{}: there is no such folder{}", name,
           is_hub_name(path)
               ? fmt::format("; tern downloads nothing. If this is a model of Hugging "
                             "Face, fetch it first: hf download {0} --local-dir {0}",
                             path)
               : "");
  check_io(!error, "{}: {}", name, error.message());
  check_io(fs::is_directory(status), "{}: this is a file, not a folder{}", name,
           path.ends_with(".safetensors")
               ? fmt::format("; give the folder that it is in: {}", folder_of(path))
               : "");
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string read_small_file(const std::string& path) {
  constexpr uint64_t kLargest = 1 << 24;
  std::error_code error;
  const bool regular = fs::is_regular_file(path, error);
  check_io(regular, "{}: cannot be read: {}", path, error ? error.message() : "it is not a file");
  const uint64_t size = fs::file_size(path, error);
  check_io(!error && size <= kLargest, "{}: it has {} bytes, but such a file has at most {}", path,
           size, kLargest);
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  check_io(in.good() || in.eof(), "{}: cannot be read", path);
  return text;
}

void check_program(const std::string& program, const std::string& flag, const std::string& path) {
  const std::string made_by = program_of({path.ends_with(".safetensors") ? folder_of(path) : path});
  if (made_by.empty() || made_by == program) return;
  // A program such as train_cifar has no command "train".
  const std::string words = as_started(made_by) + (made_by.starts_with("train") ? "" : " train");
  const std::string remedy =
      flag == "--resume" ? fmt::format("{} --resume {} continues it", words, shell_word(path))
                         : fmt::format("{} --help says how to use it", as_started(made_by));
  fail_io(fmt::format("{} {}: this is a run of {}, not of {}; {}", flag, path, title_of(made_by),
                      title_of(program), remedy));
}

void check_first_epoch_over(const std::string& path) {
  std::error_code error;
  const training::RunFolder run{folder_of(path)};
  const bool begun = fs::exists(run.checkpoint(), error);
  check_io(fs::exists(path, error) || !begun || has_epoch(run.log()),
           "{0}: this run has no weights yet: it writes them after each epoch, and its first epoch "
           "has not ended. Wait, or continue it with --resume {0}",
           run.path);
}

}  // namespace tern::apps
