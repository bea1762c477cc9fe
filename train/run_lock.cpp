#include "tern/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tern/core/base/error.h"
#include "tern/core/io/atomic_file.h"
#include "tern/train/run_folder.h"

namespace tern::train {
namespace {

constexpr size_t kMostOwner = 300;  // bytes: a number and the name of a machine
constexpr size_t kMostDigits = 10;  // of the number

std::string machine_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

std::string read_start(int fd) {
  std::string text(kMostOwner, '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text;
}

std::string read_owner(int fd) {
  const std::string text = read_start(fd);
  return text.substr(0, text.find('\n'));
}

// Whether it is what a lock has: "4711 machine\n", or less where its writer was killed.
bool is_owner(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (text.size() >= kMostOwner || digits > kMostDigits) return false;
  if (digits == text.size()) return true;
  if (digits == 0 || text[digits] != ' ') return false;
  const size_t space = text.find_first_of(" \t\n\v\f\r", digits + 1);
  return space == std::string::npos || (space + 1 == text.size() && text[space] == '\n');
}

// "process 4711", or "process 4711 on another-machine".
std::string describe_owner(const std::string& owner) {
  const size_t space = owner.find(' ');
  if (owner.empty() || space == std::string::npos) return "another process";
  const std::string machine = owner.substr(space + 1);
  return "process " + owner.substr(0, space) + (machine == machine_name() ? "" : " on " + machine);
}

[[noreturn]] void fail_locked(const std::string& folder, const std::string& owner) {
  fail(
      fmt::format("{}: {} is at work on the run in this folder; wait until it has ended, or choose "
                  "another folder",
                  folder, owner));
}

}  // namespace

RunLock::RunLock(const std::string& folder) : folder_(folder), path_(RunFolder{folder}.lock()) {
  do {
    if (fd_ >= 0) ::close(fd_);
    open();
    held_ = lock();
  } while (held_ && !in_place());
  try {
    const std::string before = read_start(fd_);
    check_io(is_owner(before),
             "{}: this file is not the lock of a run; move it away, or choose another folder",
             path_);
    abandoned_ = !before.empty();
    write_owner();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

void RunLock::open() { fd_ = tern::detail::open_regular_file(path_, O_RDWR | O_CREAT); }

// False where there are no locks.
bool RunLock::lock() {
  int result = -1;
  do result = ::flock(fd_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0) return true;
  if (errno != EWOULDBLOCK) return false;
  const std::string owner = describe_owner(read_owner(fd_));
  ::close(fd_);
  fail_locked(folder_, owner);
}

bool RunLock::in_place() const {
  struct stat mine = {}, there = {};
  return ::fstat(fd_, &mine) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

void RunLock::check_in_place() const {
  if (in_place()) return;
  throw WriteError(fmt::format(
      "{}: the folder of the run was moved or removed while it was at work (its lock is no longer "
      "there); nothing more is written. Where the folder was moved to, the run can be resumed",
      folder_));
}

void RunLock::write_owner() {
  const std::string owner = fmt::format("{} {}\n", ::getpid(), machine_name());
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size()))
    tern::detail::fail_write(path_, "cannot write");
}

RunLock::~RunLock() {
  if (in_place()) ::unlink(path_.c_str());
  ::close(fd_);
}

void check_unlocked(const std::string& folder) {
  const int fd =
      ::open(RunFolder{folder}.lock().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  const bool locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const std::string owner = locked ? describe_owner(read_owner(fd)) : "";
  ::close(fd);
  if (locked) fail_locked(folder, owner);
}

std::string RunLock::warning() const {
  return fmt::format(
      "{}: its file system has no locks; a second run into this folder would not be "
      "noticed, so see to it that there is none",
      folder_);
}

}  // namespace tern::train
