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

/// A file being written. Until commit() the target keeps its old content; a file that is never
/// committed leaves nothing behind. It stays in the folder that it was begun in: if that is moved
/// meanwhile, commit() puts the file there, and not into a new folder of the old name. Every
/// failure is a WriteError with the path and the reason.
class AtomicFile {
 public:
  /// REQUIRES: the folder of `path` exists; `path` itself is a regular file or nothing. A link to a
  /// regular file is replaced, and what it points to stays as it is.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, int64_t count);
  void write(std::string_view bytes) { write(bytes.data(), static_cast<int64_t>(bytes.size())); }
  /// Syncs the bytes to the disk and puts the file in its place.
  void commit();

 private:
  std::string path_, name_, temporary_;  // the last two within the folder
  int folder_ = -1, fd_ = -1;
};

namespace detail {

/// Throws WriteError "write: PATH: WHAT: " and what errno says.
[[noreturn]] void fail_write(const std::string& path, const char* what);

/// Opens a file to write in it where it lies (`flags` as for open(2)) and gives its descriptor.
/// Only a regular file will do: a name that leads elsewhere, a link for one, would let whoever made
/// it choose the file that is written, and a pipe would wait for a reader. IoError if it is
/// something else, WriteError if it cannot be opened.
int open_regular_file(const std::string& path, int flags);

/// Adds to the end of a file, which is made if it is not there. IoError if there is something else
/// than a regular file, a link too; WriteError, and perhaps part of the bytes, where writing fails.
void append_to_file(const std::string& path, std::string_view bytes);

/// Removes from a folder what processes that are gone were writing there when they ended: the
/// temporary files of AtomicFile.
void remove_abandoned_files(const std::string& folder);

}  // namespace detail

}  // namespace tern
