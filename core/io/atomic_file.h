// Files that are there whole or not at all: written beside the target, synced, renamed over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// A file being written. Until commit() the target keeps its old content; a file that is never
/// committed leaves nothing behind. Every failure is an IoError with the path and the reason.
class AtomicFile {
 public:
  /// REQUIRES: the folder of `path` exists; `path` itself is a regular file or nothing.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, int64_t count);
  void write(std::string_view bytes) { write(bytes.data(), static_cast<int64_t>(bytes.size())); }
  /// Syncs the bytes to the disk and puts the file in its place.
  void commit();

 private:
  [[noreturn]] void fail_write(const char* what) const;
  std::string path_, temporary_;
  int fd_ = -1;
};

}  // namespace tern
