// The bytes of a file in order. gzip files (https://www.rfc-editor.org/rfc/rfc1952) are unpacked on
// the fly, other files are read as they are. Files are not trusted: a truncated or damaged stream,
// a wrong checksum or too many unpacked bytes throw IoError with file, position and reason. Memory
// is a fixed buffer, independent of the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tern::datasets {

class ByteReader {
 public:
  struct Options {
    int64_t max_bytes = int64_t{1} << 36;  ///< limit of the (unpacked) bytes
    /// Limit of unpacked bytes per byte of a gzip file, on average: below 20 for text and images,
    /// 1000 for a malicious file. The first 16 MiB do not count.
    int64_t max_ratio = 100;
  };

  /// Opens a regular file. Its first two bytes tell whether it is gzip.
  explicit ByteReader(std::string path) : ByteReader(std::move(path), Options{}) {}
  ByteReader(std::string path, Options options);
  ~ByteReader();
  ByteReader(ByteReader&&) noexcept;
  ByteReader& operator=(ByteReader&&) noexcept;

  /// Copies the next bytes to `to`; fewer than n only at the end of the stream.
  int64_t read(void* to, int64_t n);
  /// Copies exactly n bytes. IoError if the stream ends earlier.
  void read_exactly(void* to, int64_t n);
  /// Skips n bytes, in a plain file without reading them. IoError if the stream ends earlier.
  void skip(int64_t n);
  /// Reads to the end, where a gzip stream has its checksum.
  void drain();

  /// Number of (unpacked) bytes read so far.
  int64_t position() const;
  /// Number of bytes of the file itself that were used for them.
  int64_t file_position() const;
  /// Number of (unpacked) bytes left, if known: not for gzip.
  std::optional<int64_t> remaining() const;
  bool is_gzip() const;
  const std::string& path() const;

  /// Throws IoError: "PATH: WHAT (at byte N)".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::datasets
