#include "tern/core/io/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <regex>
#include <utility>

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

void write_all(int fd, const char* at, int64_t count, const std::string& path) {
  // One call takes at most 2 GiB on Linux.
  constexpr int64_t kMost = int64_t{1} << 30;
  while (count > 0) {
    ssize_t done = ::write(fd, at, static_cast<size_t>(std::min(count, kMost)));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write(path, "cannot write");
    at += done;
    count -= done;
  }
}

bool is_gone(pid_t process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

void fail_write(const std::string& path, const char* what) {
  throw WriteError(fmt::format("write: {}: {}: {}", path, what, std::strerror(errno)));
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat info = {};
  bool exists = ::stat(path_.c_str(), &info) == 0;
  check_io(!exists || S_ISREG(info.st_mode), "write: {} is not a regular file", path_);
  // Distinct for every writer, so that two of them cannot mix their bytes.
  static std::atomic<uint64_t> counter{0};
  temporary_ = fmt::format("{}.{}.{}.tmp", path_, ::getpid(), counter.fetch_add(1));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_write(path_, "cannot create a file there");
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, int64_t count) {
  write_all(fd_, static_cast<const char*>(bytes), count, path_);
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_write(path_, "cannot sync");
  int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) fail_write(path_, "cannot close");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail_write(path_, "cannot rename into place");
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void append_to_file(const std::string& path, std::string_view bytes) {
  struct Open {
    int fd;
    ~Open() {
      if (fd >= 0) ::close(fd);
    }
  };
  Open file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)};
  if (file.fd < 0) fail_write(path, "cannot be opened");
  write_all(file.fd, bytes.data(), static_cast<int64_t>(bytes.size()), path);
  if (::close(std::exchange(file.fd, -1)) != 0) fail_write(path, "cannot close");
}

void remove_abandoned_files(const std::string& folder) {
  static const std::regex temporary(R"(.+\.([0-9]{1,9})\.[0-9]+\.tmp)");
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::smatch parts;
    if (std::regex_match(name, parts, temporary) && is_gone(std::atoi(parts[1].str().c_str())))
      ::unlink(it->path().c_str());
    if (error) return;
  }
}

}  // namespace tern
