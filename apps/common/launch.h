// How a training program starts, goes on and ends: what --out, --resume, --epochs and --warmup mean
// in all of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/train/loop.h"
#include "tern/train/run_folder.h"
#include "tern/train/run_lock.h"
#include "tern/train/schedule.h"

namespace tern::apps {

/// Headings and texts that say what runs.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A run's folder that no other process trains in while this lives.
struct LockedFolder : train::RunFolder {
  std::shared_ptr<const train::RunLock> lock;
  /// Options of a loop in it.
  train::LoopOptions loop_options(bool tensorboard = false) const {
    return {.folder = path, .lock = lock, .tensorboard = tensorboard};
  }
};

/// A path as it can be used later, from wherever that is; an empty one stays.
void make_absolute(std::string& path);

/// Error if --out names what cannot become the folder of a new run: it holds one, or is no folder.
void check_new_folder(const std::string& out);
/// Makes the folder of a new run: `out`, or if that is empty runs/NAME, or the first of
/// runs/NAME-2, runs/NAME-3, ... that does not exist yet. `out` may have what a run left that ended
/// before its first checkpoint; that is said. It is locked: Error if another process trains in it.
LockedFolder make_run_folder(const std::string& out, const std::string& name);
/// A run that is refused leaves no folder: what was made since this was constructed goes away again
/// with it, unless keep() was called. Nothing that was there before is touched.
class NewRunGuard {
 public:
  /// `out`: --out, or empty.
  explicit NewRunGuard(const std::string& out);
  ~NewRunGuard();
  NewRunGuard(const NewRunGuard&) = delete;
  NewRunGuard& operator=(const NewRunGuard&) = delete;

  /// The run's folder is there now, and this is its lock: what another run has taken meanwhile is
  /// not removed.
  void made(std::shared_ptr<const train::RunLock> lock);
  void keep() { folder_.clear(); }

 private:
  std::string out_, folder_;
  std::shared_ptr<const train::RunLock> lock_;
  std::vector<std::string> missing_;  ///< folders that were not there, the innermost first
};

/// Locks the folder that --resume names. Error if another process trains in it. If it has no
/// checkpoint, because a run ended before its first one, the run begins anew where `description`
/// names a file in the folder that is there, the last of those that say how it was started, and
/// that is said; else an Error that says what to do.
LockedFolder resumed_folder(const std::string& path, const std::string& description = "");
/// Its checkpoint; nothing of a run that begins anew.
std::optional<SafeTensors> load_resumed(const train::RunFolder& folder);

/// The epochs of a resumed run: those it was started with, or others (--epochs; 0: not given) if
/// its schedule does not depend on its length.
int64_t resumed_epochs(const std::string& schedule, int64_t started_with, int64_t given);

/// Cuts a warm-up that nobody asked for to a short run, and adds to `facts` that it did; or, of
/// noam, whose warm-up cannot be cut, that the rate will only rise.
void fit_warmup(train::ScheduleOptions& schedule, int64_t steps, Facts& facts);

/// Says where the loop says things what runs, runs the loop, and then `finish` (false: a signal
/// stopped it). Gives the program's exit code: 0, kExitInterrupted, or 1 if the training diverged.
/// `program` is the name before messages. A lost standard output does not stop it.
int run_loop(const std::string& program, train::Loop& loop, const Facts& facts,
             const std::function<bool()>& finish);

}  // namespace tern::apps
