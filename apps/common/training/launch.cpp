// Makes or locks the folder of a run, refuses folders that hold other files, and fits epochs and
// warm-up.
#include "tern/apps/common/training/launch.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/common/training/folder.h"
#include "tern/core/base/error.h"
#include "tern/train/progress.h"

namespace tern::apps {

namespace fs = std::filesystem;

void make_absolute(std::string& path) {
  if (!path.empty()) path = fs::absolute(path).string();
}

namespace {

LockedFolder locked(const std::string& path) {
  auto lock = std::make_shared<const training::RunLock>(path);
  if (!lock->held()) complain(lock->warning());
  return {{path}, std::move(lock)};
}

void say_begins_anew(const training::RunFolder& folder) {
  training::say(
      fmt::format(
          "{}: a run ended here before its first checkpoint; it starts again from the beginning",
          folder.path),
      log_stream());
}

void check_holds_no_run(const training::RunFolder& folder) {
  check(!folder.holds_run() || fs::exists(folder.checkpoint()),
        "--out {0}: the folder holds the log or the weights of a run, but no checkpoint to "
        "resume from; choose another folder",
        folder.path);
  check(!folder.holds_run(),
        "--out {0}: the folder holds a run already; continue it with --resume {0}, or choose "
        "another folder",
        folder.path);
}

// The run could overwrite files that are already in the folder. A run that ended before its first
// checkpoint left its log, its run.json or, if it was killed early, its lock: that is allowed.
void check_holds_nothing_else(const training::RunFolder& folder) {
  std::error_code error;  // ignored: the folder may not exist yet, and locking reports other errors
  for (const std::string& path : {folder.lock(), folder.log(), folder.file("run.json")})
    if (fs::exists(path, error)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path, error)) {
    const std::string name = entry.path().filename().string();
    check(name.ends_with(".tmp") || name.starts_with('.'),
          "--out {}: the folder holds other files, such as {}; choose a new folder or an empty one",
          folder.path, name);
  }
}

void check_resumable(const training::RunFolder& folder, const std::string& description) {
  if (fs::exists(folder.checkpoint())) return;
  check(!folder.holds_run(), "--resume {}: there is no {}", folder.path, folder.checkpoint());
  check(fs::exists(folder.file(description)),
        "--resume {0}: there is no {1}; if a run ended here before its first checkpoint, start it "
        "again with --out {0} and its other flags",
        folder.path, folder.checkpoint());
}

}  // namespace

void check_new_folder(const std::string& out) {
  std::error_code error;
  fs::file_status status = fs::status(out, error);
  check(!fs::exists(status) || fs::is_directory(status), "--out {}: this is not a folder", out);
  training::check_unlocked(out);
  check_holds_no_run({out});
  check_holds_nothing_else({out});
}

LockedFolder make_run_folder(const std::string& out, const std::string& name) {
  if (out.empty()) return locked(training::make_new_folder("runs/" + name).path);
  check_new_folder(out);
  training::RunFolder{out}.make();
  LockedFolder folder = locked(out);
  check_holds_no_run(folder);  // another process may have been faster
  if (folder.lock->found_abandoned() || fs::exists(folder.log())) say_begins_anew(folder);
  return folder;
}

NewRunGuard::NewRunGuard(const std::string& out) : out_(out) {
  std::error_code error;
  fs::path at = fs::absolute(out.empty() ? "runs" : out).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  for (; at.has_relative_path() && !fs::exists(at, error); at = at.parent_path())
    missing_.push_back(at.string());
}

void NewRunGuard::made(std::shared_ptr<const training::RunLock> lock) {
  lock_ = std::move(lock);
  const std::string path = fs::absolute(lock_->folder()).lexically_normal().string();
  // Only a folder that did not exist before may be removed. Without --out it is always new.
  if (out_.empty() || !missing_.empty()) folder_ = path;
  std::erase(missing_, path);
}

NewRunGuard::~NewRunGuard() {
  if (folder_.empty() || !lock_->in_place()) return;
  std::error_code error;  // ignored: a folder that cannot be removed stays
  fs::remove_all(folder_, error);
  // Removes the folders around it, unless they contain something else by now.
  for (const std::string& path : missing_) fs::remove(path, error);
}

LockedFolder resumed_folder(const std::string& path, const std::string& description) {
  check_folder(path, "--resume " + path);
  training::check_unlocked(path);
  check_resumable({path}, description);  // before locking: a refusal changes nothing
  LockedFolder folder = locked(path);
  if (!fs::exists(folder.checkpoint())) say_begins_anew(folder);
  return folder;
}

int64_t resumed_epochs(const std::string& schedule, int64_t started_with, int64_t given,
                       const char* what) {
  if (given == 0 || given == started_with) return started_with;
  check(!training::depends_on_length(schedule),
        "--{} {}: the {} schedule of this run was made for {} {}; with another number, every step "
        "so far would have had a different rate. Start a new run",
        what, given, schedule, started_with, what);
  return given;
}

void fit_warmup(training::ScheduleOptions& schedule, int64_t steps, Facts& facts) {
  const int64_t fitting = training::fitting_warmup(schedule, steps);
  if (schedule.name == "noam" && schedule.warmup >= steps)
    facts.emplace_back("", fmt::format("the rate only rises: noam's warm-up has {} steps, but the "
                                       "run has {}; try a shorter --warmup or another --schedule",
                                       schedule.warmup, steps));
  if (fitting == schedule.warmup) return;
  facts.emplace_back("", fmt::format("warm-up cut from {} to {} steps, because the run has {}",
                                     schedule.warmup, fitting, steps));
  schedule.warmup = fitting;
}

}  // namespace tern::apps
