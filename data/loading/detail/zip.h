// Members of zip archives for npz files: stored or deflated, of any size (Zip64).
// Inside of data only.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tern/core/io/atomic_file.h"
#include "tern/core/io/zip_directory.h"

namespace tern::datasets::detail {

/// The bytes of one member, in order. Compares the checksum at the end.
class ZipMember {
 public:
  ZipMember(const RandomFile& file, const ZipEntry& entry);
  ~ZipMember();
  ZipMember(const ZipMember&) = delete;
  ZipMember& operator=(const ZipMember&) = delete;
  void read_exactly(void* to, int64_t count);

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
