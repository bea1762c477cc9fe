// Files that are there whole or not at all: written beside the target, synced, renamed over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/core/base/error.h"

namespace tern {

/// A file or folder cannot be written: the disk is full, rights are missing. Nobody's input is
/// wrong, and what was there before is still there.
class WriteError : public IoError {
 public:
  using IoError::IoError;
};

/// Throws WriteError "write: PATH: WHAT: " and what errno says.
[[noreturn]] void fail_write(const std::string& path, const char* what);

/// A file being written. Until commit() the target keeps its old content; a file that is never
/// committed leaves nothing behind. Every failure is a WriteError with the path and the reason.
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
  std::string path_, temporary_;
  int fd_ = -1;
};

/// Adds to the end of a file, which is made if it is not there. WriteError, and perhaps part of the
/// bytes, where that fails.
void append_to_file(const std::string& path, std::string_view bytes);

/// Removes from a folder what processes that are gone were writing there when they ended: the
/// temporary files of AtomicFile.
void remove_abandoned_files(const std::string& folder);

}  // namespace tern
