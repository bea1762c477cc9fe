#include "tern/apps/common/run_folder.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "tern/core/base/error.h"
#include "tern/core/io/safetensors.h"

namespace tern::apps {

namespace fs = std::filesystem;

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

void check_new_folder(const std::string& out) {
  std::error_code error;
  fs::file_status status = fs::status(out, error);
  if (!fs::exists(status)) return;
  check(fs::is_directory(status), "--out {}: this is not a folder", out);
  RunFolder folder{out};
  for (const std::string& file : {folder.checkpoint(), folder.log(), folder.last_weights()})
    check(!fs::exists(file, error),
          "--out {0}: the folder holds a run already; go on with it by --resume {0}, or choose "
          "another",
          out);
}

RunFolder make_run_folder(const std::string& out, const std::string& name) {
  std::error_code error;
  if (!out.empty()) {
    check_new_folder(out);
    fs::create_directories(out, error);
    check_io(!error, "--out {}: the folder cannot be made: {}", out, error.message());
    return {out};
  }
  fs::create_directories("runs", error);
  for (int i = 1;; ++i) {
    std::string path = i == 1 ? "runs/" + name : fmt::format("runs/{}-{}", name, i);
    if (fs::create_directory(path, error)) return {path};
    check_io(!error, "{}: the folder of the run cannot be made: {}; choose one with --out", path,
             error.message());
  }
}

}  // namespace tern::apps
