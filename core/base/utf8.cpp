// Validates UTF-8 with utf8proc; ASCII bytes are skipped one by one.
#include "tern/core/base/utf8.h"

#include <utf8proc.h>

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

}  // namespace tern
