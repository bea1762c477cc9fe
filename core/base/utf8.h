// Checks and writes UTF-8. data/text/unicode/unicode.h has more functions for Unicode text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tern {

/// The offset of the first byte outside valid UTF-8 (overlong forms and surrogates are invalid);
/// nullopt if the text is valid.
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// Appends the bytes of a code point. Error if there is none of this number.
void append_utf8(std::string& to, char32_t code_point);

/// The text with A to Z in lower case. std::tolower depends on the locale.
std::string lower_ascii(std::string text);

}  // namespace tern
