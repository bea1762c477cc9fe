// Replaces control characters by visible ones (with utf8proc), and quotes words for a shell.
#include "tern/core/base/terminal_text.h"

#include <utf8proc.h>

#include <algorithm>

namespace tern {

std::string terminal_text(std::string_view text) {
  constexpr std::string_view kPictures = "\u2400", kDeletePicture = "\u2421",
                             kReplacement = "\uFFFD";
  constexpr utf8proc_int32_t kDelete = 0x7F, kEndOfC1 = 0x9F;
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t c = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
    utf8proc_ssize_t length =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (length < 1) {  // not UTF-8
      length = 1;
      c = *bytes;
    }
    if (c < 0x20 && c != '\n' && c != '\t') {
      out += kPictures;
      out.back() = static_cast<char>(out.back() + c);
    } else if (c == kDelete) {
      out += kDeletePicture;
    } else if (c > kDelete && c <= kEndOfC1) {
      out += kReplacement;
    } else {
      out.append(text, at, static_cast<size_t>(length));
    }
    at += static_cast<size_t>(length);
  }
  return out;
}

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=:,+@%").find(c) != std::string_view::npos ||
           static_cast<unsigned char>(c) >= 0x80;
  });
  if (plain) return word;
  std::string s = "'";
  for (const char c : word) s += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return s + "'";
}

}  // namespace tern
