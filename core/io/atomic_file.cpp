// Writes files by a temporary file in the same folder, fsync and rename. Also appends to files and
// removes the temporary files of ended processes.
#include "tern/core/io/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "tern/core/base/system.h"

namespace tern {

using detail::Descriptor;
using detail::fail_write;
using detail::open_regular_file;
using detail::write_all;

namespace {

std::string folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

int open_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0 || errno != EACCES) return fd;
  return ::open(folder.c_str(), detail::kFolderWithoutListing);
}

bool is_gone(pid_t process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

// Cuts the number off the end of "name.4711", leaving "name", and returns it. Empty if there is no
// number.
std::string_view cut_number(std::string_view& name) {
  const size_t point = name.find_last_not_of("0123456789");
  if (point == std::string_view::npos || name[point] != '.') return {};
  const std::string_view number = name.substr(point + 1);
  name = name.substr(0, point);
  return number;
}

// The process that wrote the temporary file "name.process.count.tmp"; nullopt for other names.
std::optional<pid_t> writer_of(std::string_view name) {
  if (!name.ends_with(".tmp")) return {};
  name.remove_suffix(4);
  const std::string_view count = cut_number(name), process = cut_number(name);
  if (count.empty() || process.empty() || process.size() > 9 || name.empty()) return {};
  return std::atoi(std::string(process).c_str());
}

}  // namespace

bool detail::Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0;
}

void detail::fail_write(const std::string& path, const char* what) {
  throw WriteError(fmt::format("write: {}: {}: {}", path, what, std::strerror(errno)));
}

void detail::write_all(int fd, const void* bytes, int64_t count, const std::string& path) {
  // One call takes at most 2 GiB on Linux.
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    ssize_t done = ::write(fd, at, static_cast<size_t>(std::min(count, kMost)));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write(path, "cannot write");
    at += done;
    count -= done;
  }
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), name_(path_.substr(path_.rfind('/') + 1)) {
  struct stat info = {};
  bool exists = ::stat(path_.c_str(), &info) == 0;
  check_io(!exists || S_ISREG(info.st_mode), "write: {} is not a regular file", path_);
  // A unique name per writer, so that no two mix their bytes. An existing file stays as it is: it
  // may belong to an ended process, or be a link.
  static std::atomic<uint64_t> counter{0};
  folder_ = Descriptor(open_folder(folder_of(path_)));
  if (folder_ < 0) fail_write(path_, "cannot create a file there");
  do {
    temporary_ = fmt::format("{}.{}.{}.tmp", name_, ::getpid(), counter.fetch_add(1));
    fd_ = Descriptor(
        ::openat(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) fail_write(path_, "cannot create a file there");
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlinkat(folder_, temporary_.c_str(), 0);
}

void AtomicFile::write(const void* bytes, int64_t count) { write_all(fd_, bytes, count, path_); }

void AtomicFile::sync() {
  if (::fsync(fd_) != 0) fail_write(path_, "cannot sync");
  if (!fd_.close()) fail_write(path_, "cannot close");
}

void AtomicFile::move() {
  if (::renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0)
    fail_write(path_, "cannot rename into place");
  temporary_.clear();
  // Makes the rename survive a power cut. Some file systems cannot sync a folder; then there is no
  // stronger guarantee.
  ::fsync(folder_);
}

void AtomicFiles::commit() {
  for (AtomicFile& file : files_) file.sync();
  for (AtomicFile& file : files_) file.move();
  files_.clear();
}

int detail::open_regular_file(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  // These errors mean a link, a pipe without a reader or a socket, and a folder.
  const bool other = fd < 0 && (errno == ELOOP || errno == ENXIO || errno == EISDIR);
  if (fd < 0 && !other) fail_write(path, "cannot be opened");
  struct stat info = {};
  if (fd >= 0 && ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0) ::close(fd);
  fail_io(fmt::format("write: {} is not a regular file", path));
}

void detail::append_to_file(const std::string& path, std::string_view bytes) {
  Descriptor file(open_regular_file(path, O_WRONLY | O_CREAT | O_APPEND));
  write_all(file, bytes.data(), static_cast<int64_t>(bytes.size()), path);
  if (!file.close()) fail_write(path, "cannot close");
}

void detail::remove_abandoned_files(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    const std::optional<pid_t> writer = writer_of(it->path().filename().string());
    if (writer && is_gone(*writer)) ::unlink(it->path().c_str());
    if (error) return;
  }
}

}  // namespace tern
