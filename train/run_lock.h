// A run's folder as one process's own: two runs that write into one folder would destroy both.
#pragma once

#include <string>

namespace tern::train {

/// Holds the file `lock` of a folder (flock), with the process's id and machine in it, until it is
/// destroyed or the process is gone, however it ends. Programs that only read the folder do not ask
/// for it. The file is removed at the end, if it is still this one; one that a killed run left is
/// no obstacle.
class RunLock {
 public:
  /// REQUIRES: the folder exists. Error with the other's process id if another process, or another
  /// RunLock of this one, holds it; WriteError if the file cannot be written. IoError if `lock` is
  /// there and is not a run's: a link, a pipe, a file of somebody else. It is left as it is. Where
  /// the file system has no locks nothing is held: see held().
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  const std::string& folder() const { return folder_; }
  /// False where the file system has no locks. A second run into the folder is not noticed then.
  bool held() const { return held_; }
  /// Whether the folder still has this file under its name. Not if the folder was moved or removed
  /// meanwhile, or the file was: another run may be at work there by now.
  bool in_place() const;
  /// WriteError unless it is. To be asked before each file that is written: what is then written is
  /// the folder's own, for a file reaches its place within the folder that it was begun in.
  void check_in_place() const;
  /// For people, where it is not held.
  std::string warning() const;
  /// There was a lock already, of a run that did not end by itself.
  bool found_abandoned() const { return abandoned_; }

 private:
  void open();
  bool lock();
  void write_owner();

  std::string folder_, path_;
  int fd_ = -1;
  bool held_ = false, abandoned_ = false;
};

/// Error as RunLock's if somebody holds the folder's lock; nothing is written.
void check_unlocked(const std::string& folder);

}  // namespace tern::train
