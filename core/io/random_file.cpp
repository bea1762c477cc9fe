// RandomFile: reads at any position of a regular file with pread.
#include "tern/core/io/random_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tern/core/base/error.h"

namespace tern {

RandomFile::RandomFile(std::string path)
    : RandomFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path) {}

RandomFile::RandomFile(int fd, std::string path) : path_(std::move(path)), fd_(fd) {
  check_io(fd_ >= 0, "{}: cannot be opened: {}", path_, std::strerror(errno));
  struct stat info {};
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  size_ = info.st_size;
  if (regular) return;
  ::close(fd_);
  fail_io(fmt::format("{}: is not a regular file", path_));
}

RandomFile::~RandomFile() { ::close(fd_); }

void RandomFile::fail(const std::string& what) const {
  fail_io(fmt::format("{}: {}", path_, what));
}

void RandomFile::fail(int64_t at, const std::string& what) const {
  fail_io(fmt::format("{}: {} (at byte {})", path_, what, at));
}

void RandomFile::read(int64_t at, void* to, int64_t count) const {
  constexpr int64_t kMost = int64_t{1} << 30;  // one call takes at most 2 GiB on Linux
  auto* bytes = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(fd_, bytes, static_cast<size_t>(std::min(count, kMost)), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(at, std::strerror(errno));
    if (got == 0) fail(at, fmt::format("ends {} bytes too early", count));
    bytes += got;
    at += got;
    count -= got;
  }
}

std::string RandomFile::first_bytes(int64_t most) const {
  std::string bytes(static_cast<size_t>(std::min(size_, most)), '\0');
  read(0, bytes.data(), std::ssize(bytes));
  return bytes;
}

}  // namespace tern
