// A file with random access. Inside of tern only.
#pragma once

#include <cstdint>
#include <string>

namespace tern {

/// Reads at any position of a regular file. Every failure is an IoError that names the file.
class RandomFile {
 public:
  explicit RandomFile(std::string path);
  /// Takes over an open file. `path` is for messages.
  RandomFile(int fd, std::string path);
  ~RandomFile();
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  int descriptor() const { return fd_; }
  void read(int64_t at, void* to, int64_t count) const;
  /// The first bytes: `most` of them, or the whole file if it is smaller.
  std::string first_bytes(int64_t most) const;
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(int64_t at, const std::string& what) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace tern
