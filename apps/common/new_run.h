// A run at its beginning: refused before it has begun, and still in its first epoch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tern/train/run_lock.h"

namespace tern::apps {

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

/// IoError where the weights at `path` are not there because the run in that folder is still in its
/// first epoch, or was stopped in it.
void check_first_epoch_over(const std::string& path);

}  // namespace tern::apps
