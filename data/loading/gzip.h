// Bytes of a file one after another; gzip files (https://www.rfc-editor.org/rfc/rfc1952) are
// unpacked on the way, others are read as they are. Nothing is trusted: a truncated or damaged
// stream, a wrong checksum and a stream that unpacks to more than the limit throw IoError with
// the file, the position and the reason. Memory is a fixed buffer, whatever the file says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tern::data {

class ByteReader {
 public:
  struct Options {
    int64_t max_bytes = int64_t{1} << 36;  ///< the most (unpacked) bytes that are handed out
    /// Bytes that a byte of a gzip file may unpack to, on average: text and pictures have below 20,
    /// a file made to fill memory 1000. The first 16 MiB are free.
    int64_t max_ratio = 100;
  };

  /// Opens a regular file; whether it is gzip is seen from its first two bytes.
  explicit ByteReader(std::string path) : ByteReader(std::move(path), Options{}) {}
  ByteReader(std::string path, Options options);
  ~ByteReader();
  ByteReader(ByteReader&&) noexcept;
  ByteReader& operator=(ByteReader&&) noexcept;

  /// Copies the next bytes to `to`; fewer than n only where the stream ends.
  int64_t read(void* to, int64_t n);
  /// Copies exactly n bytes; IoError where the stream ends before.
  void read_exactly(void* to, int64_t n);
  void skip(int64_t n);
  /// Reads to the end, which is where a gzip stream keeps its checksum.
  void drain();

  /// (Unpacked) bytes read so far.
  int64_t position() const;
  /// Bytes of the file itself that these were.
  int64_t file_position() const;
  /// (Unpacked) bytes from here to the end, where that is known: not for gzip.
  std::optional<int64_t> remaining() const;
  bool is_gzip() const;
  const std::string& path() const;

  /// Throws IoError: "PATH: WHAT (at byte N)".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern::data
