// A lock that lets one process train in a folder: two runs in one folder would destroy each other.
#pragma once

#include <functional>
#include <string>

#include "tern/core/io/atomic_file.h"
#include "tern/train/run_folder.h"

namespace tern::training {

/// Locks the file `lock` of a folder (flock) until the object is destroyed or the process ends in
/// any way. The file contains the process id and the name of the machine. Programs that only read
/// the folder need no lock. The destructor removes the file if it is still the same file. A file
/// that a killed run left behind does not block a new run.
class RunLock {
 public:
  /// REQUIRES: the folder exists. Error with the owner's process id if another process, or another
  /// RunLock of this one, has the lock. WriteError if the file cannot be written. IoError if `lock`
  /// exists and is not a run's (a link, a pipe, another user's file); it stays as it is. On a file
  /// system without locks nothing is locked: see held().
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const std::string& folder() const { return folder_; }
  /// False on a file system without locks, where a second run in the folder is not noticed.
  bool held() const { return held_; }
  /// Whether the folder still has this file under its name. If not, folder or file were moved or
  /// removed, and another run may now train there.
  bool in_place() const;
  /// WriteError unless in_place(). Call it before each file is written: a file that was begun in
  /// the folder also ends there.
  void check_in_place() const;
  /// Calls write() with a path that leads to the locked folder even if it is moved meanwhile; for
  /// several files, or for files that take long to write. WriteError of check_in_place() if the
  /// folder was moved or removed before write() has returned or thrown. Other file errors show the
  /// folder's usual name.
  void write(const std::function<void(const RunFolder&)>& write) const;
  /// The text to show the user if !held().
  std::string warning() const;
  /// Whether a run left its lock here because it was killed.
  bool found_abandoned() const { return abandoned_; }

 private:
  void open();
  bool lock();
  bool is_at(const std::string& path) const;
  void write_owner();

  std::string folder_, path_;
  std::string here_;  // a path to the folder that stays valid when it is moved
  tern::detail::Descriptor opened_, file_;
  bool held_ = false, abandoned_ = false;
};

/// Error, as RunLock's, if the folder is locked; writes nothing.
void check_unlocked(const std::string& folder);

}  // namespace tern::training
