// How training programs start and resume: the meaning of --out, --resume, --epochs and --warmup.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/train/run_folder.h"
#include "tern/train/run_lock.h"
#include "tern/train/schedule.h"

namespace tern::apps {

/// Headings and texts that say what runs.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A run's folder; while this object lives, no other process can train in it.
struct LockedFolder : training::RunFolder {
  std::shared_ptr<const training::RunLock> lock;
};

/// Makes a path absolute, so that it can be used later from any folder. An empty path stays empty.
void make_absolute(std::string& path);

/// Error if --out cannot become the folder of a new run: it is no folder, or it holds a run or
/// other files.
void check_new_folder(const std::string& out);
/// Makes and locks the folder of a new run: `out`, or if that is empty the first of runs/NAME,
/// runs/NAME-2, runs/NAME-3, ... that does not exist yet. `out` may hold the files of a run that
/// ended before its first checkpoint; a message says so. Error if another process trains in it.
LockedFolder make_run_folder(const std::string& out, const std::string& name);
/// Removes the folders of a run that could not start: unless keep() was called, the destructor
/// removes every folder made since construction, and nothing that existed before.
class NewRunGuard {
 public:
  /// `out`: --out, or empty.
  explicit NewRunGuard(const std::string& out);
  ~NewRunGuard();
  NewRunGuard(const NewRunGuard&) = delete;
  NewRunGuard& operator=(const NewRunGuard&) = delete;

  /// Call this when the run's folder exists; `lock` is its lock. A folder that another run has
  /// taken in the meantime is not removed.
  void made(std::shared_ptr<const training::RunLock> lock);
  void keep() { folder_.clear(); }

 private:
  std::string out_, folder_;
  std::shared_ptr<const training::RunLock> lock_;
  std::vector<std::string> missing_;  ///< folders that did not exist, the innermost first
};

/// Locks the folder that --resume names. Error if another process trains in it. A run without a
/// checkpoint begins anew, with a message, if the folder has the file `description`, the last file
/// written when a run starts; else Error, which says what to do.
LockedFolder resumed_folder(const std::string& path, const std::string& description);

/// The epochs of a resumed run: `given` (--epochs; 0: not given), or the epochs that it was started
/// with. Error if `given` changes them and the schedule depends on the length. `what` is the unit
/// in messages: "epochs" or "steps".
int64_t resumed_epochs(const std::string& schedule, int64_t started_with, int64_t given,
                       const char* what = "epochs");

/// Shortens the default warm-up to fit a short run, and adds that to `facts`. The warm-up of noam
/// cannot be shortened; `facts` then say that the rate will only rise.
void fit_warmup(training::ScheduleOptions& schedule, int64_t steps, Facts& facts);

}  // namespace tern::apps
