// Makes names and fields of files printable in messages. Inside of tern only.
#pragma once

#include <string>

namespace tern {

/// Replaces control characters, which a terminal might obey, by '?'.
inline std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace tern
