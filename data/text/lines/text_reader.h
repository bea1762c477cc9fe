// A text file, plain or gzip, in pieces of whole characters: memory does not grow with the file.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "tern/data/loading/text_decoder.h"

namespace tern::datasets {

/// Throws the IoErrors of read_text (lines.h).
class TextReader {
 public:
  explicit TextReader(const std::string& path,
                      int64_t max_bytes = std::numeric_limits<int64_t>::max());

  /// Appends the next bytes of the text, about 1 MiB that end with a whole character. At the end of
  /// the text, appends nothing and returns false. Converts UTF-16 to UTF-8; a byte order mark is
  /// not part of the text.
  bool read(std::string& text);
  /// Skips bytes of the text, and the rest of a character that they end in. Does not check them,
  /// and does not read them from a plain file.
  void skip(int64_t bytes);
  /// Bytes of the text so far.
  int64_t position() const { return position_; }

 private:
  [[noreturn]] void fail_character(int64_t position) const;
  Utf8Reader bytes_;
  std::string rest_;      // the beginning of a character
  int64_t position_ = 0;  // in the text
};

}  // namespace tern::datasets
