// Reads SentencePiece's table from base64 and looks up the replacements of graphemes in it.
#include "tern/data/text/pretrained/pretrained_charsmap.h"

#include <cstring>
#include <optional>

#include "tern/core/base/error.h"
#include "tern/data/text/tokenizer/limits.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

constexpr size_t kLongestGrapheme = 5;  // bytes; longer graphemes are looked up by character

std::optional<uint32_t> digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return std::nullopt;
}

std::string from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const std::optional<uint32_t> digit = digit_of(c);
    check(digit.has_value(), "precompiled_charsmap is not base64");
    bits = bits << 6 | *digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFF);
  }
  return out;
}

// The fields of a unit of the double array.
bool has_leaf(uint32_t u) { return (u >> 8 & 1) != 0; }
uint32_t value(uint32_t u) { return u & 0x7FFFFFFF; }
uint32_t label(uint32_t u) { return u & 0x800000FF; }
uint32_t offset(uint32_t u) { return (u >> 10) << ((u & 1u << 9) >> 6); }

}  // namespace

CharsMap::CharsMap(std::string_view base64) {
  const std::string bytes = from_base64(base64);
  uint32_t size = 0;
  check(bytes.size() >= sizeof size, "precompiled_charsmap has {} bytes", bytes.size());
  std::memcpy(&size, bytes.data(), sizeof size);
  check(size % 4 == 0 && size <= bytes.size() - sizeof size && size > 0,
        "precompiled_charsmap has {} bytes, but its array claims {}", bytes.size(), size);
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  texts_ = bytes.substr(sizeof size + size);
  check(!find_invalid_utf8(texts_), "precompiled_charsmap's texts are not UTF-8");
}

bool CharsMap::transform(std::string_view part, std::string& out) const {
  size_t at = offset(units_[0]);
  for (char c : part) {
    if (c == 0) return false;
    at ^= static_cast<unsigned char>(c);
    if (at >= units_.size() || label(units_[at]) != static_cast<unsigned char>(c)) return false;
    const uint32_t unit = units_[at];
    at ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (at >= units_.size() || value(units_[at]) > texts_.size()) return false;
    const size_t begin = value(units_[at]);
    std::string_view text = std::string_view(texts_).substr(begin);
    text = text.substr(0, text.find('\0'));
    if (find_invalid_utf8(text)) return false;  // it points into a character
    out += text;
    return true;
  }
  return false;
}

std::string CharsMap::apply(std::string_view text) const {
  std::string out;
  for (std::string_view grapheme : graphemes(text)) {
    check(std::ssize(out) <= kMostNormalBytes,
          "precompiled_charsmap makes a text of more than {} bytes", kMostNormalBytes);
    if (grapheme.size() <= kLongestGrapheme && transform(grapheme, out)) continue;
    for (std::string_view character : code_points(grapheme))
      if (!transform(character, out)) out += character;
  }
  return out;
}

}  // namespace tern::datasets::detail
