// Converts texts to UTF-8. A byte order mark tells the encoding: UTF-8 (EF BB BF) or UTF-16 (FF FE,
// FE FF), which Excel and PowerShell write. The mark is not part of the text. Without a mark the
// bytes pass unchanged and unchecked. UTF-32, UTF-16 without a mark, and files that are not text
// (PDF, docx, zip, pictures) are IoErrors that name the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/data/loading/gzip.h"

namespace tern::datasets {

/// Decodes bytes that come in pieces.
class TextDecoder {
 public:
  /// `name` is the file's name in errors.
  explicit TextDecoder(std::string name) : name_(std::move(name)) {}

  /// Appends the bytes to `to` as UTF-8. Holds back bytes that may be part of a mark or a character
  /// until the next call. IoError: the bytes are not text, or not valid UTF-16.
  void add(std::string_view bytes, std::string& to);
  /// Appends the rest. IoError: the text ends inside a UTF-16 character.
  void finish(std::string& to);

  bool is_utf16() const { return kind_ == Kind::little || kind_ == Kind::big; }
  /// Bytes of the mark.
  int64_t mark() const { return mark_; }
  /// Whether pieces pass unchanged from here on.
  bool passes() const { return kind_ == Kind::bytes; }

 private:
  enum class Kind { unknown, bytes, little, big };
  void begin(bool ended);
  void add_units(std::string_view bytes, std::string& to);
  void add_unit(unsigned unit, std::string& to);
  [[noreturn]] void fail_unit() const;

  std::string name_;
  Kind kind_ = Kind::unknown;
  std::string waiting_;  // bytes that may begin a mark, or the first byte of a UTF-16 unit
  unsigned high_ = 0;    // the first half of a surrogate pair
  int64_t mark_ = 0, units_ = 0;
};

/// A text file, plain or gzip, as UTF-8. Memory is a fixed buffer, independent of the file.
class Utf8Reader {
 public:
  /// IoError: the file cannot be read, or is not text.
  explicit Utf8Reader(const std::string& path) : Utf8Reader(path, ByteReader::Options{}) {}
  Utf8Reader(const std::string& path, ByteReader::Options options);

  /// Copies the next bytes of the text to `to`; fewer than n only at its end.
  int64_t read(char* to, int64_t n);
  /// Skips n bytes of the text. Reads them only if they are packed or UTF-16. IoError if the text
  /// ends earlier.
  void skip(int64_t n);
  /// The file.
  const ByteReader& file() const { return bytes_; }
  /// The position of byte `n` of the text in the (unpacked) file, counted from 1. For UTF-16: the
  /// position in the converted text.
  int64_t place(int64_t n) const { return n + 1 + (decoder_.is_utf16() ? 0 : decoder_.mark()); }

 private:
  bool fill();

  ByteReader bytes_;
  TextDecoder decoder_;
  std::string ready_;  // decoded bytes; those from at_ on are not returned yet
  size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace tern::datasets
