// Numbers in the texts that ranks send each other. Their bits are written in hexadecimal, because
// locales differ in the decimal point. Inside of train only.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "tern/core/base/error.h"

namespace tern::training::detail {

inline std::string exact_text(double value) {
  return fmt::format("{:016x}", std::bit_cast<uint64_t>(value));
}

/// The inverse of exact_text(). Error for any other text.
inline double exact_number(std::string_view text) {
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  check(text.size() == 16 && error == std::errc() && end == text.data() + text.size(),
        "Loop: another rank sent '{}' for a number; do all ranks run the same program?", text);
  return std::bit_cast<double>(bits);
}

/// Removes the text up to and including the mark, and returns it without the mark. Without a mark,
/// takes the whole text.
inline std::string_view taken_until(std::string_view& text, char mark) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

}  // namespace tern::training::detail
