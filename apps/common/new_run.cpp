#include "tern/apps/common/new_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/train/run_folder.h"

namespace tern::apps {

namespace fs = std::filesystem;

namespace {

// Whether a line of the log is that of an epoch, which comes after its weights.
bool has_epoch(const std::string& log) {
  std::error_code error;
  if (!fs::is_regular_file(log, error)) return false;  // a pipe would be waited for
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("{\"epoch\"")) return true;
  return false;
}

}  // namespace

NewRunGuard::NewRunGuard(const std::string& out) : out_(out) {
  std::error_code error;
  fs::path at = fs::absolute(out.empty() ? "runs" : out).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  for (; at.has_relative_path() && !fs::exists(at, error); at = at.parent_path())
    missing_.push_back(at.string());
}

void NewRunGuard::made(std::shared_ptr<const train::RunLock> lock) {
  lock_ = std::move(lock);
  const std::string path = fs::absolute(lock_->folder()).lexically_normal().string();
  // Without --out it is one that was not there; with it it may have been.
  if (out_.empty() || !missing_.empty()) folder_ = path;
  std::erase(missing_, path);
}

NewRunGuard::~NewRunGuard() {
  if (folder_.empty() || !lock_->in_place()) return;
  std::error_code error;  // what cannot be removed stays
  fs::remove_all(folder_, error);
  // Those around it only if nothing else has come into them.
  for (const std::string& path : missing_) fs::remove(path, error);
}

void check_first_epoch_over(const std::string& path) {
  std::error_code error;
  const train::RunFolder run{fs::path(path).parent_path().string()};
  const bool begun = fs::exists(run.checkpoint(), error);
  check_io(fs::exists(path, error) || !begun || has_epoch(run.log()),
           "{0}: this run has no weights yet: it writes them after each epoch, and is still in its "
           "first or was stopped there. Wait, or go on with it by --resume {0}",
           run.path);
}

}  // namespace tern::apps
