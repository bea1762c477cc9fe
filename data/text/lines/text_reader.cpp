// Reads a text in pieces, and keeps the beginning of a cut character for the next piece.
#include "tern/data/text/lines/text_reader.h"

#include <algorithm>
#include <string_view>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

constexpr int64_t kTextPiece = 1 << 20;

// Bytes of the character that begins with this byte; 1 for a byte that begins none.
size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC2 || byte > 0xF4 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

TextReader::TextReader(const std::string& path, int64_t max_bytes)
    : bytes_(path, {.max_bytes = max_bytes}) {}

bool TextReader::read(std::string& text) {
  const size_t begin = text.size(), fresh = begin + rest_.size();
  text += rest_;
  text.resize(fresh + kTextPiece);
  const int64_t got = bytes_.read(text.data() + fresh, kTextPiece);
  text.resize(fresh + static_cast<size_t>(got));
  const std::string_view piece = std::string_view(text).substr(begin);
  check_io(!piece.empty() || position_ > 0, "{}: the file is empty", bytes_.file().path());
  rest_.clear();
  if (const auto at = find_invalid_utf8(piece)) {
    const bool cut = got > 0 && piece.size() - *at < character_size(piece[*at]);
    if (!cut) fail_character(position_ + static_cast<int64_t>(*at));
    rest_ = piece.substr(*at);
    text.resize(begin + *at);
  }
  const auto read = static_cast<int64_t>(text.size() - begin);
  position_ += read;
  return read > 0 || got > 0;
}

void TextReader::skip(int64_t bytes) {
  const int64_t held = std::min(bytes, std::ssize(rest_));
  rest_.erase(0, static_cast<size_t>(held));
  bytes_.skip(bytes - held);
  position_ += bytes;
  auto inside = [&] {
    if (rest_.empty()) {
      rest_.resize(1);
      rest_.resize(static_cast<size_t>(bytes_.read(rest_.data(), 1)));
    }
    return !rest_.empty() && (rest_[0] & 0xC0) == 0x80;
  };
  for (; bytes > 0 && inside(); ++position_) rest_.erase(0, 1);
}

void TextReader::fail_character(int64_t position) const {
  fail_io(
      fmt::format("{}: byte {} is not valid UTF-8; convert the file, for example with "
                  "iconv -f latin1 -t utf-8",
                  bytes_.file().path(), bytes_.place(position)));
}

}  // namespace tern::datasets
