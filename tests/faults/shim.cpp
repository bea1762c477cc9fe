// A library for LD_PRELOAD that breaks a program's file operations, for tests of crashes, full
// disks and moved folders. It counts from 1 the operations that write below a folder: open for
// writing, write, rename, fsync, link, unlink, mkdir, ftruncate. Environment variables:
//   FAULT_UNDER  the folder
//   FAULT_HOW    kill: the process dies at operation FAULT_AT, a write after half of its bytes;
//                power: the same, and the machine loses power: names stay, but each file loses
//                what was written since its last fsync, and gets shorter; zeros: files keep their
//                length, and what was lost reads as zeros (as XFS and ext4 may leave it);
//                full: from that operation on the disk is full; nolock: flock is not supported;
//                shell: runs FAULT_COMMAND in a shell just before that operation
//   FAULT_LOG    a file that gets one line per operation: number, kind, and the name of the
//                file if the operation has one
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

namespace {

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::array<std::atomic<bool>, 4096> watched;  // descriptors below the folder
std::atomic<int> operations;

bool is_watched(int fd) {
  return fd >= 0 && fd < static_cast<int>(watched.size()) && watched[static_cast<size_t>(fd)];
}

// Whether the path is below the folder, by its name or as /proc/self/fd/N.
bool is_under(const char* path) {
  static const std::string folder = setting("FAULT_UNDER"), self = "/proc/self/fd/";
  if (folder.empty() || !path) return false;
  if (std::strncmp(path, self.c_str(), self.size()) == 0)
    return is_watched(std::atoi(path + self.size()));
  return std::strncmp(path, folder.c_str(), folder.size()) == 0;
}

void watch(int fd, bool on) {
  if (fd >= 0 && fd < static_cast<int>(watched.size())) watched[static_cast<size_t>(fd)] = on;
}

// The bytes that are on the disk, counted from the start, of each file opened for writing.
using File = std::pair<dev_t, ino_t>;
std::map<File, off_t>& synced() {
  static std::map<File, off_t> files;
  return files;
}
std::mutex& synced_lock() {
  static std::mutex lock;
  return lock;
}

constexpr off_t kAll = std::numeric_limits<off_t>::max();

// Records that at most `most` bytes are on the disk; `all`: all bytes of the file.
void note_synced(int fd, off_t most, bool all = false) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return;
  const std::lock_guard guard(synced_lock());
  const auto [at, fresh] = synced().try_emplace({info.st_dev, info.st_ino}, info.st_size);
  if (all) at->second = info.st_size;
  if (at->second > most) at->second = most;
}

// Removes from the files the bytes that did not reach the disk.
void lose_power(bool zeros) {
  const std::lock_guard guard(synced_lock());
  std::error_code error;
  const std::filesystem::recursive_directory_iterator all(setting("FAULT_UNDER"), error);
  for (const std::filesystem::directory_entry& entry : all) {
    struct stat info = {};
    const char* path = entry.path().c_str();
    if (::lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const auto at = synced().find({info.st_dev, info.st_ino});
    if (at == synced().end() || at->second >= info.st_size) continue;
    if (::truncate(path, at->second) != 0 || (zeros && ::truncate(path, info.st_size) != 0))
      std::abort();
  }
}

void log(int number, const char* operation, const std::string& name) {
  static const std::string path = setting("FAULT_LOG");
  if (path.empty()) return;
  const std::string line = std::to_string(number) + " " + operation + " " + name + "\n";
  const int fd = next<int(const char*, int, ...)>("open")(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (next<ssize_t(int, const void*, size_t)>("write")(fd, line.data(), line.size()) < 0)
    std::abort();
  ::close(fd);
}

enum class Fate { goes_on, dies, fails };

// `path`: empty if the operation has none.
Fate fate(const char* operation, const std::string& path = "") {
  static const std::string how = setting("FAULT_HOW");
  static const int at = std::atoi(setting("FAULT_AT").c_str());
  const int number = ++operations;
  log(number, operation, path.substr(path.rfind('/') + 1));
  if ((how == "kill" || how == "power" || how == "zeros") && number == at) return Fate::dies;
  if (how == "shell" && number == at) {
    ::unsetenv("LD_PRELOAD");
    if (std::system(setting("FAULT_COMMAND").c_str()) != 0) std::abort();
  }
  return how == "full" && number >= at ? Fate::fails : Fate::goes_on;
}

[[noreturn]] void die() {
  const std::string how = setting("FAULT_HOW");
  if (how != "kill") lose_power(how == "zeros");
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

// Whether the operation must fail. Does not return if the process must die here.
bool fails(const char* operation, const std::string& path = "") {
  const Fate f = fate(operation, path);
  if (f == Fate::dies) die();
  if (f == Fate::fails) errno = ENOSPC;
  return f == Fate::fails;
}

int open_file(const char* name, const char* path, int flags, mode_t mode) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (is_under(path) && writes && fails("open", path)) return -1;
  const int fd = next<int(const char*, int, ...)>(name)(path, flags, mode);
  watch(fd, is_under(path));
  if (is_under(path) && writes) note_synced(fd, (flags & O_TRUNC) ? 0 : kAll);
  return fd;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open64", path, flags, mode);
}

// The folder must be below the watched one.
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  const bool under = is_watched(folder);
  if (under && (flags & O_ACCMODE) != O_RDONLY && fails("open", path)) return -1;
  const int fd = next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
  watch(fd, under);
  if (under && (flags & O_ACCMODE) != O_RDONLY) note_synced(fd, (flags & O_TRUNC) ? 0 : kAll);
  return fd;
}

FILE* fopen(const char* path, const char* mode) {
  if (is_under(path) && mode[0] != 'r' && fails("open", path)) return nullptr;
  FILE* file = next<FILE*(const char*, const char*)>("fopen")(path, mode);
  if (file) watch(::fileno(file), is_under(path));
  if (file && is_under(path) && mode[0] != 'r')
    note_synced(::fileno(file), mode[0] == 'w' ? 0 : kAll);
  return file;
}

int close(int fd) {
  watch(fd, false);
  return next<int(int)>("close")(fd);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  const auto real = next<ssize_t(int, const void*, size_t)>("write");
  if (!is_watched(fd)) return real(fd, bytes, count);
  switch (fate("write")) {
    case Fate::goes_on:
      break;
    case Fate::dies:
      if (real(fd, bytes, count / 2) >= 0) die();
      std::abort();
    case Fate::fails:
      errno = ENOSPC;
      return -1;
  }
  return real(fd, bytes, count);
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (is_watched(fd) && fails("write")) return -1;
  if (is_watched(fd)) note_synced(fd, offset);
  return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, bytes, count, offset);
}

int ftruncate(int fd, off_t length) {
  if (is_watched(fd) && fails("ftruncate")) return -1;
  if (is_watched(fd)) note_synced(fd, length);
  return next<int(int, off_t)>("ftruncate")(fd, length);
}

// Only processes die here, not machines: a real fsync is not needed and would take long.
int fsync(int fd) {
  if (is_watched(fd)) {
    if (fails("fsync")) return -1;
    note_synced(fd, kAll, true);
    return 0;
  }
  return next<int(int)>("fsync")(fd);
}

int rename(const char* from, const char* to) {
  if (is_under(to) && fails("rename", to)) return -1;
  return next<int(const char*, const char*)>("rename")(from, to);
}

int renameat(int folder, const char* from, int to_folder, const char* to) {
  if (is_watched(to_folder) && fails("rename", to)) return -1;
  return next<int(int, const char*, int, const char*)>("renameat")(folder, from, to_folder, to);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  if (is_under(to) && fails("link", to)) return -1;
  return next<int(int, const char*, int, const char*, int)>("linkat")(from_folder, from, to_folder,
                                                                      to, flags);
}

// Works on a full disk, too.
int unlink(const char* path) {
  if (is_under(path) && fate("unlink", path) == Fate::dies) die();
  return next<int(const char*)>("unlink")(path);
}

int remove(const char* path) {  // std::filesystem::remove
  if (is_under(path) && fate("unlink", path) == Fate::dies) die();
  return next<int(const char*)>("remove")(path);
}

int unlinkat(int folder, const char* path, int flags) {
  if (is_watched(folder) && fate("unlink", path) == Fate::dies) die();
  return next<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

int mkdir(const char* path, mode_t mode) {
  if (is_under(path) && fails("mkdir", path)) return -1;
  return next<int(const char*, mode_t)>("mkdir")(path, mode);
}

int flock(int fd, int operation) {
  static const bool unsupported = setting("FAULT_HOW") == "nolock";
  if (unsupported) {
    errno = ENOTSUP;
    return -1;
  }
  return next<int(int, int)>("flock")(fd, operation);
}

}  // extern "C"
