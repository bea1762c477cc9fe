// Files that exist completely or not at all: written to a temporary file, synced, renamed.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "tern/core/base/error.h"

namespace tern {

/// A file or folder cannot be written: the disk is full, permissions are missing. The input is
/// fine, and the old content is still there.
class WriteError : public IoError {
 public:
  using IoError::IoError;
};

namespace detail {

/// Owns an open file or folder and closes it. -1: no file.
class Descriptor {
 public:
  explicit Descriptor(int opened = -1) : fd_(opened) {}
  ~Descriptor() { close(); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  operator int() const { return fd_; }
  /// False if the file cannot be closed; errno says why.
  bool close();

 private:
  int fd_;
};

}  // namespace detail

/// A file being written. Until commit() the target keeps its old content. Without commit() nothing
/// stays behind. If the folder is moved meanwhile, commit() puts the file there and not into a new
/// folder with the old name. Every failure is a WriteError with path and reason.
class AtomicFile {
 public:
  /// REQUIRES: the folder of `path` exists; `path` is a regular file or does not exist. A link to a
  /// regular file is replaced; its target stays unchanged.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, int64_t count);
  void write(std::string_view bytes) { write(bytes.data(), static_cast<int64_t>(bytes.size())); }
  /// Syncs the bytes to disk and moves the file into place.
  void commit() { sync(), move(); }

 private:
  friend class AtomicFiles;
  void sync();
  void move();

  std::string path_, name_, temporary_;  // the last two relative to the folder
  detail::Descriptor folder_, fd_;
};

/// Files that belong together. Until commit() all targets keep their old content.
class AtomicFiles {
 public:
  /// A file to write to. REQUIRES: as AtomicFile. It is committed with the others.
  AtomicFile& add(std::string path) { return files_.emplace_back(std::move(path)); }
  /// Syncs all files to disk, and then moves them into place, in the order of add().
  void commit();

 private:
  std::deque<AtomicFile> files_;
};

namespace detail {

/// Throws WriteError "write: PATH: WHAT: " followed by errno's text.
[[noreturn]] void fail_write(const std::string& path, const char* what);

/// Writes to an open file. WriteError with `path` if that fails, perhaps after part of the bytes.
void write_all(int fd, const void* bytes, int64_t count, const std::string& path);

/// Opens a file for in-place writing (`flags` as for open(2)) and returns its descriptor. Only
/// regular files are allowed: a link would let its creator choose which file is written, and a pipe
/// would wait for a reader. IoError for other kinds of files, WriteError if opening fails.
int open_regular_file(const std::string& path, int flags);

/// Appends to a file, creating it if needed. IoError if it is not a regular file (links included).
/// WriteError if writing fails, perhaps after part of the bytes.
void append_to_file(const std::string& path, std::string_view bytes);

/// Removes the temporary files of AtomicFile that ended processes left in a folder.
void remove_abandoned_files(const std::string& folder);

}  // namespace detail

}  // namespace tern
