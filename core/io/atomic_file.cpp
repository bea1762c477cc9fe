#include "tern/core/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tern/core/base/error.h"

namespace tern {
namespace {

std::string folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Makes the rename itself survive a power cut. Some file systems cannot sync a folder; there the
// rename is as durable as it gets.
void sync_folder(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat info = {};
  bool exists = ::stat(path_.c_str(), &info) == 0;
  check_io(!exists || S_ISREG(info.st_mode), "write: {} is not a regular file", path_);
  // Distinct for every writer, so that two of them cannot mix their bytes.
  static std::atomic<uint64_t> counter{0};
  temporary_ = fmt::format("{}.{}.{}.tmp", path_, ::getpid(), counter.fetch_add(1));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_write("cannot create a file there");
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, int64_t count) {
  // One call takes at most 2 GiB on Linux.
  constexpr int64_t kMost = int64_t{1} << 30;
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    ssize_t done = ::write(fd_, at, static_cast<size_t>(std::min(count, kMost)));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write("cannot write");
    at += done;
    count -= done;
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_write("cannot sync");
  int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail_write("cannot close");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write("cannot rename into place");
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void AtomicFile::fail_write(const char* what) const {
  fail_io(fmt::format("write: {}: {}: {}", path_, what, std::strerror(errno)));
}

}  // namespace tern
