// A lock by flock() on a file of the folder, and checks by inode that the file is still in its
// place, even if the folder was moved.
#include "tern/train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tern/core/base/error.h"
#include "tern/core/base/system.h"

namespace tern::training {

using tern::detail::Descriptor;

namespace {

constexpr size_t kMostOwner = 300;  // bytes of a process id and the name of a machine
constexpr size_t kMostDigits = 10;  // digits of a process id

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

// Whether a lock has this content: "4711 machine\n", or nothing if its writer was killed. (So few
// bytes are written as a whole.) After a loss of power it may be all zeros: file systems may keep
// the length of a file without its content.
bool is_owner(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (text.size() < kMostOwner && text.find_first_not_of('\0') == text.npos) return true;
  if (text.size() >= kMostOwner || digits == 0 || digits > kMostDigits) return false;
  const size_t space = text.find_first_of(" \t\n\v\f\r", digits + 1);
  return text[digits] == ' ' && space + 1 == text.size() && text[space] == '\n';
}

// "process 4711", or "process 4711 on another-machine".
std::string describe_owner(const std::string& owner) {
  const size_t space = owner.find(' ');
  if (owner.empty() || space == std::string::npos) return "another process";
  const std::string machine = owner.substr(space + 1);
  return "process " + owner.substr(0, space) + (machine == machine_name() ? "" : " on " + machine);
}

// Replaces one name of the folder in `text` by another of its names.
std::string renamed(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from + "/", at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

[[noreturn]] void fail_locked(const std::string& folder, const std::string& owner) {
  fail(fmt::format(
      "{}: {} is using the run in this folder; wait until it has ended, or choose another folder",
      folder, owner));
}

}  // namespace

RunLock::RunLock(const std::string& folder) : folder_(folder), path_(RunFolder{folder}.lock()) {
  do {
    open();
    held_ = lock();
  } while (held_ && !in_place());
  const std::string before = read_start(file_);
  check_io(is_owner(before),
           "{}: this file is not the lock of a run; move it away, or choose another folder", path_);
  abandoned_ = !before.empty();
  write_owner();
}

void RunLock::open() {
  file_ = Descriptor(tern::detail::open_regular_file(path_, O_RDWR | O_CREAT));
  opened_ = Descriptor(::open(folder_.c_str(), tern::detail::kFolderWithoutListing));
  if (opened_ < 0) tern::detail::fail_write(folder_, "cannot be opened");
  here_ = fmt::format("/proc/self/fd/{}", static_cast<int>(opened_));
  if (::access(here_.c_str(), F_OK) != 0) here_ = folder_;  // /proc is not mounted
}

// False if the file system has no locks.
bool RunLock::lock() {
  int result = -1;
  do result = ::flock(file_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  if (result == 0) return true;
  if (errno != EWOULDBLOCK) return false;
  fail_locked(folder_, describe_owner(read_owner(file_)));
}

// Whether the file at `path` is this lock.
bool RunLock::is_at(const std::string& path) const {
  struct stat mine = {}, there = {};
  return ::fstat(file_, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

// The second check: the lock is still in the folder that was opened.
bool RunLock::in_place() const { return is_at(path_) && is_at(RunFolder{here_}.lock()); }

void RunLock::check_in_place() const {
  if (in_place()) return;
  throw WriteError(
      fmt::format("{}: the folder of the run was moved or removed while the program was running "
                  "(its lock is no longer there), so nothing more is written. If it was moved, the "
                  "run can be resumed from its new place",
                  folder_));
}

void RunLock::write(const std::function<void(const RunFolder&)>& write) const {
  const auto usual = [this](const std::string& text) { return renamed(text, here_, folder_); };
  check_in_place();
  try {
    write({here_});
  } catch (const WriteError& e) {
    check_in_place();
    throw WriteError(usual(e.what()));
  } catch (const IoError& e) {
    check_in_place();
    throw IoError(usual(e.what()));
  } catch (...) {
    check_in_place();
    throw;
  }
  check_in_place();
}

void RunLock::write_owner() {
  const std::string owner = fmt::format("{} {}\n", ::getpid(), machine_name());
  if (::ftruncate(file_, 0) != 0 ||
      ::pwrite(file_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size()))
    tern::detail::fail_write(path_, "cannot write");
}

RunLock::~RunLock() {
  if (in_place()) ::unlink(RunFolder{here_}.lock().c_str());
}

void check_unlocked(const std::string& folder) {
  const Descriptor file(
      ::open(RunFolder{folder}.lock().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file < 0) return;
  if (::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail_locked(folder, describe_owner(read_owner(file)));
}

std::string RunLock::warning() const {
  return fmt::format(
      "{}: its file system has no locks, so a second run in this folder would not be noticed; make "
      "sure that there is none",
      folder_);
}

}  // namespace tern::training
