// Foreign text on a terminal: names of files, lines of them, what a model wrote. Inside of tern's
// core, train and apps only.
#pragma once

#include <string>
#include <string_view>

namespace tern {

/// The text without what a terminal takes for a command. Control characters other than newline and
/// tab become their pictures (U+241B for ESC) or, from U+0080 to U+009F, U+FFFD; so does a byte
/// from 0x80 to 0x9F that is not part of valid UTF-8. Other invalid bytes stay: names of files may
/// have them.
std::string terminal_text(std::string_view text);

}  // namespace tern
