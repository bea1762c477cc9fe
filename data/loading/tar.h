// Reads a tar archive in order, plain or gzip: POSIX ustar, pax and GNU.
// https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html Members are only read, never
// written to disk, so their names need not be trusted. Damage (a wrong header checksum, sizes
// beyond the archive, an early end) throws IoError with file and position. Memory: a fixed buffer,
// and a few MiB for long names, each of at most 1 MiB.
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
  /// Begins at the header() of a member, whose number of bytes was told before.
  TarReader(std::string path, int64_t header) : TarReader(std::move(path)) { bytes_.skip(header); }

  /// The next member, skipping what is unread of the previous one; nothing after the last. The
  /// archive is then read to its end, which checks its checksum.
  std::optional<TarMember> next();
  /// Copies the next bytes of the current member; fewer than n only at its end.
  int64_t read(void* to, int64_t n);
  /// Copies exactly n bytes of the current member. IoError if it has fewer left.
  void read_exactly(void* to, int64_t n);

  /// The position at which the headers of the current member begin; after the last member, at which
  /// the archive's end mark does.
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
