// Makes foreign text safe for a terminal: file names, lines of files, a model's output.
// Inside of tern only.
#pragma once

#include <string>
#include <string_view>

namespace tern {

/// The text without terminal commands. Control characters other than newline and tab become their
/// pictures (U+241B for ESC); U+0080 to U+009F become U+FFFD. Bytes 0x80 to 0x9F outside valid
/// UTF-8 become U+FFFD too. Other invalid bytes stay, since file names may have them.
std::string terminal_text(std::string_view text);

/// A word as it is written in a shell, in quotes if it needs them.
std::string shell_word(const std::string& word);

}  // namespace tern
