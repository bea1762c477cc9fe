// Reads a tar archive in order, plain or gzip: POSIX ustar, pax
// (https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html) and GNU. Members are only
// read, never written to disk, so their names need not be trusted. Damage (a wrong header checksum,
// sizes beyond the archive, an early end) throws IoError with file and position. Memory: a fixed
// buffer, and a few MiB for long names, each of at most 1 MiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tern/data/loading/gzip.h"

namespace tern::datasets {

struct TarMember {
  std::string name;     ///< as in the archive: may contain folders, "..", anything
  int64_t size = 0;     ///< bytes of content
  bool is_file = true;  ///< an ordinary file, not a directory, link or device
};

class TarReader {
 public:
  explicit TarReader(std::string path) : TarReader(std::move(path), ByteReader::Options{}) {}
  TarReader(std::string path, ByteReader::Options options)
      : bytes_(std::move(path), options), max_bytes_(options.max_bytes) {}
  /// Begins at a member; `header` is its header() from an earlier pass.
  TarReader(std::string path, int64_t header) : TarReader(std::move(path)) { bytes_.skip(header); }

  /// Returns the next member, after skipping the rest of the previous one. After the last it
  /// returns nothing and reads the archive to its end, which checks a gzip archive's checksum.
  std::optional<TarMember> next();
  /// Copies the next bytes of the current member; fewer than n only at its end.
  int64_t read(void* to, int64_t n);
  /// Copies exactly n bytes of the current member. IoError if it has fewer left.
  void read_exactly(void* to, int64_t n);

  /// The position where the headers of the current member begin; after the last member, where the
  /// archive's end mark begins.
  int64_t header() const { return header_; }
  const ByteReader& bytes() const { return bytes_; }

 private:
  struct Extended;
  std::string read_text(int64_t size);
  void finish_member();

  ByteReader bytes_;
  int64_t max_bytes_;
  std::string name_;  // of the current member, for messages
  int64_t header_ = 0;
  int64_t left_ = 0;     // unread content of the current member
  int64_t padding_ = 0;  // bytes from its end to the next block
  bool finished_ = false;
};

}  // namespace tern::datasets
