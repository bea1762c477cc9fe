// The ids of a text in order, read by position: in memory, or in a file that may be larger than
// memory.
//
//   TokenWriter writer("runs", bpe.size());   // a file without a name in that folder
//   writer.add(ids);                          // any number of times
//   TokenStream stream = writer.finish("any text to keep with them");
//   stream.keep("runs/a/tokens.bin");         // now it has a name
//   TokenStream later = TokenStream::open("runs/a/tokens.bin");
//   Loader<WindowBatch> loader = window_loader(later, {.batch = 16, .window = 128});
//
// A file has 2 bytes per id, or 4 if the vocabulary has more than 65,536 ids, in pages of 4 KiB
// with a checksum each. So a large file opens as fast as a small one, a process reads only the
// pages that it needs, and damage is an IoError with file and byte as soon as it is read. After the
// pages come the notes and 32 bytes: "ternids1", the number of ids (u64), the vocabulary's size,
// the number of bytes of the notes, the CRC-32 of the notes and of these bytes before it, and zero
// (u32 each). All numbers are little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tern::datasets {

namespace detail {
class TokenPages;
}

/// A handle: copies share the ids. Any number of threads may read.
class TokenStream {
 public:
  /// No ids.
  TokenStream() : TokenStream(std::vector<int64_t>()) {}
  TokenStream(std::vector<int64_t> ids);                         // NOLINT: a conversion
  TokenStream(std::shared_ptr<const std::vector<int64_t>> ids);  // NOLINT: a conversion
  /// The ids of a file. IoError if it cannot be read, is not a file of ids, or has another size
  /// than its end says.
  static TokenStream open(const std::string& path);

  int64_t size() const { return size_; }
  /// Copies ids first to first + to.size() - 1. Error if there are fewer. IoError if the file is
  /// damaged there.
  void read(int64_t first, std::span<int64_t> to) const;
  std::vector<int64_t> read(int64_t first, int64_t count) const;
  /// Ids [first, end) as a stream.
  TokenStream part(int64_t first, int64_t end) const;

  /// The notes given to finish(), and the vocabulary's size; "" and 0 for ids in memory.
  const std::string& notes() const;
  int64_t vocabulary() const;
  /// Gives the file of a TokenWriter its name, and replaces a file of that name. The file is
  /// complete under that name or not there. Copies it only where the file system cannot give an
  /// open file a name. WriteError if that fails. REQUIRES: a file.
  void keep(const std::string& path) const;

 private:
  friend class TokenWriter;
  explicit TokenStream(std::shared_ptr<const detail::TokenPages> pages);
  std::shared_ptr<const std::vector<int64_t>> ids_;  // set if the ids are in memory
  std::shared_ptr<const detail::TokenPages> pages_;  // set if they are in a file
  int64_t first_ = 0, size_ = 0;
};

/// Writes ids to a file without a name, which vanishes with its last user unless
/// TokenStream::keep() names it: a process that is killed leaves nothing behind.
class TokenWriter {
 public:
  /// Creates the file in `folder`, or in the nearest folder above it that exists; if that fails, in
  /// the system's folder for temporary files. WriteError if neither works.
  TokenWriter(const std::string& folder, int64_t vocabulary);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Error if an id is not in [0, vocabulary). WriteError if the disk is full.
  void add(std::span<const int64_t> ids);
  int64_t size() const { return size_; }
  /// Ends the file. At most 64 MiB of notes.
  TokenStream finish(const std::string& notes);

 private:
  void begin_page();
  void end_page();
  void flush();
  std::string place_;  // for messages
  int fd_ = -1;
  int64_t vocabulary_, size_ = 0, pages_ = 0;
  std::vector<unsigned char> buffer_;  // pages that are not written yet
  unsigned char* page_ = nullptr;      // the last of them
};

}  // namespace tern::datasets
