// Zip archives (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT) for npz files: stored
// or deflated members of any size (Zip64). Inside of data only.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/core/io/atomic_file.h"

namespace tern::datasets::detail {

struct ZipEntry {
  std::string name;
  int64_t packed = 0, size = 0;  ///< bytes in the archive, bytes unpacked
  int64_t header = 0;            ///< position of its local header
  uint32_t crc = 0;
  bool deflated = false;
};

/// A file with random access. Every failure is an IoError that names it.
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
  [[noreturn]] void fail(int64_t at, const std::string& what) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

/// Reads and checks the archive's directory: every member is inside the file, none unpacks to more
/// than deflate allows, and the packed sizes together do not exceed the file.
std::vector<ZipEntry> read_zip_directory(const RandomFile& file);

/// The bytes of one member, in order. Compares the checksum at the end.
class ZipMember {
 public:
  ZipMember(const RandomFile& file, const ZipEntry& entry);
  ~ZipMember();
  ZipMember(const ZipMember&) = delete;
  ZipMember& operator=(const ZipMember&) = delete;
  void read_exactly(void* to, int64_t count);
  int64_t position() const { return done_; }

 private:
  int64_t refill();
  void unpack(unsigned char* to, int64_t count);
  [[noreturn]] void fail(const std::string& what) const;

  const RandomFile& file_;
  ZipEntry entry_;
  int64_t at_ = 0, end_ = 0, done_ = 0;  // position and end in the file, bytes returned
  uint32_t crc_ = 0;
  std::vector<unsigned char> buffer_;
  z_stream z_{};
};

/// Writes stored members in order.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  /// Begins a member of `size` bytes with this checksum; exactly `size` bytes must follow.
  void begin(const std::string& name, int64_t size, uint32_t crc);
  void write(const void* bytes, int64_t count);
  /// Writes the directory and moves the file into place.
  void commit();

 private:
  AtomicFile file_;
  std::vector<ZipEntry> entries_;
  int64_t at_ = 0;
};

}  // namespace tern::datasets::detail
