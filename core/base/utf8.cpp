// Validates and writes UTF-8 with utf8proc. Validation skips ASCII bytes one by one.
#include "tern/core/base/utf8.h"

#include <utf8proc.h>

#include "tern/core/base/error.h"

namespace tern {

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    if ((text[at] & 0x80) == 0) {
      ++at;
      continue;
    }
    utf8proc_int32_t c = -1;
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + at, left, &c);
    if (length <= 0 || c < 0) return at;
    at += static_cast<size_t>(length);
  }
  return std::nullopt;
}

void append_utf8(std::string& to, char32_t code_point) {
  utf8proc_uint8_t buffer[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), buffer);
  check(n > 0, "append_utf8: U+{:X} is not a code point", static_cast<uint32_t>(code_point));
  to.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(n));
}

std::string lower_ascii(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace tern
