// Normalises a line of text before it is cut into tokens.
#pragma once

#include <string>
#include <string_view>

namespace tern::datasets {

struct NormalizeOptions {
  bool nfc = true;     ///< combine accents with their letters (Unicode NFC)
  bool lower = false;  ///< lower case
  bool spaces = true;  ///< reduce white space (no-break too) to single spaces, none at ends
  bool d2l = false;    ///< insert a missing space before each , . ! ?
  bool operator==(const NormalizeOptions&) const = default;

  /// The rules of d2l.ai's chapters on translation (https://d2l.ai, section 10.5): all of these.
  static NormalizeOptions d2l_form() { return {.lower = true, .d2l = true}; }
};

/// Invalid UTF-8 bytes become U+FFFD, so any text works.
std::string normalize(std::string_view text, const NormalizeOptions& options = {});

}  // namespace tern::datasets
