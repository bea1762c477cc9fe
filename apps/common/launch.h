// How a training program starts and resumes: the meaning of --out, --resume, --epochs and --warmup
// in all of them.
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

/// A run's folder that no other process trains in while this lives.
struct LockedFolder : training::RunFolder {
  std::shared_ptr<const training::RunLock> lock;
};

/// Makes a path absolute, so that it can be used later from any folder. An empty path stays empty.
void make_absolute(std::string& path);

/// Error if --out cannot become the folder of a new run: it holds a run already, or is no folder.
void check_new_folder(const std::string& out);
/// Makes the folder of a new run: `out`, or if that is empty runs/NAME, or the first of
/// runs/NAME-2, runs/NAME-3, ... that does not exist yet. `out` may hold the files of a run that
/// ended before its first checkpoint; a message says so. Locks the folder: Error if another process
/// trains in it.
LockedFolder make_run_folder(const std::string& out, const std::string& name);
/// A run that is refused leaves no folder: unless keep() was called, the destructor removes the
/// folders that were made since the construction. It touches nothing that was there before.
class NewRunGuard {
 public:
  /// `out`: --out, or empty.
  explicit NewRunGuard(const std::string& out);
  ~NewRunGuard();
  NewRunGuard(const NewRunGuard&) = delete;
  NewRunGuard& operator=(const NewRunGuard&) = delete;

  /// The run's folder exists now, and this is its lock. A folder that another run has taken
  /// meanwhile is not removed.
  void made(std::shared_ptr<const training::RunLock> lock);
  void keep() { folder_.clear(); }

 private:
  std::string out_, folder_;
  std::shared_ptr<const training::RunLock> lock_;
  std::vector<std::string> missing_;  ///< folders that were not there, the innermost first
};

/// Locks the folder that --resume names. Error if another process trains in it. A run that ended
/// before its first checkpoint begins anew, with a message, if the folder has the file
/// `description`: it is written last of those that say how the run was started. Without it: Error
/// that says what to do.
LockedFolder resumed_folder(const std::string& path, const std::string& description = "");

/// The epochs of a resumed run: those it was started with, or `given` (--epochs; 0: not given) if
/// its schedule does not depend on its length, else Error. Or `what` else counts its length.
int64_t resumed_epochs(const std::string& schedule, int64_t started_with, int64_t given,
                       const char* what = "epochs");

/// Shortens a warm-up that no flag asked for to fit a short run, and says so in `facts`. The
/// warm-up of noam cannot be shortened; `facts` then say that the rate will only rise.
void fit_warmup(training::ScheduleOptions& schedule, int64_t steps, Facts& facts);

}  // namespace tern::apps
