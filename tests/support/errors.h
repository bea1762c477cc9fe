// The messages of errors, for tests of what they say.
#pragma once

#include <string>

#include "tern/core/base/error.h"

namespace tern::test {

/// The message of the E that fn() throws; empty if it throws nothing. Other exceptions pass.
template <class E = Error, class F>
std::string error_of(F&& fn) {
  try {
    static_cast<void>(fn());
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

template <class F>
std::string io_error(F&& fn) {
  return error_of<IoError>(fn);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

/// How often `part` occurs in the text, without overlaps.
inline size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

}  // namespace tern::test
