// Inside of data only: names out of archives in messages.
#pragma once

#include <string>

namespace tern::data::detail {

/// What a terminal might take for a command becomes '?'.
inline std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

}  // namespace tern::data::detail
