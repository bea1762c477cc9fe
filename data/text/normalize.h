// What is done to a line of text before it is cut into tokens.
#pragma once

#include <string>
#include <string_view>

namespace tern::data {

struct NormalizeOptions {
  bool nfc = true;     ///< compose accents with their letters (Unicode NFC)
  bool lower = false;  ///< lower case
  bool spaces = true;  ///< runs of white space, no-break ones included, to one space; none at ends
  bool d2l = false;    ///< a space before each , . ! ? that has none
  bool operator==(const NormalizeOptions&) const = default;

  /// The form of d2l.ai's chapters on translation (https://d2l.ai, section 10.5): everything here.
  static NormalizeOptions d2l_form() { return {.lower = true, .d2l = true}; }
};

/// Bytes that are not UTF-8 become U+FFFD, so any text will do.
std::string normalize(std::string_view text, const NormalizeOptions& options = {});

}  // namespace tern::data
