// Reads a tar archive, packed by gzip or not, from front to back: POSIX ustar, pax and GNU.
// https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html
// Members are only read, never written to disk, so their names need not be trusted. Damage (a
// header with a wrong checksum, sizes beyond the archive, an early end) throws IoError with the
// file and the position.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tern/data/loading/gzip.h"

namespace tern::data {

struct TarMember {
  std::string name;     ///< as the archive has it: may hold directories, "..", anything
  int64_t size = 0;     ///< bytes of content
  bool is_file = true;  ///< an ordinary file, not a directory, link or device
};

class TarReader {
 public:
  explicit TarReader(std::string path) : TarReader(std::move(path), ByteReader::Options{}) {}
  TarReader(std::string path, ByteReader::Options options)
      : bytes_(std::move(path), options), max_bytes_(options.max_bytes) {}

  /// The next member, past whatever is unread of the one before; nothing after the last. The
  /// archive is then read to its end, so that its checksum is known to be right.
  std::optional<TarMember> next();
  /// Copies the next bytes of the current member; fewer than n only where it ends.
  int64_t read(void* to, int64_t n);
  /// Copies exactly n bytes of the current member; IoError if it has fewer left.
  void read_exactly(void* to, int64_t n);

  const ByteReader& bytes() const { return bytes_; }

 private:
  struct Extended;
  std::string read_text(int64_t size);
  void finish_member();

  ByteReader bytes_;
  int64_t max_bytes_;
  std::string name_;     // of the current member, for messages
  int64_t left_ = 0;     // unread content of the current member
  int64_t padding_ = 0;  // bytes from its end to the next block
  bool finished_ = false;
};

}  // namespace tern::data
