#include "tern/train/detail/progress_line.h"

#include <fmt/core.h>

#include <algorithm>

namespace tern::train {
namespace {

constexpr int64_t kBarWidth = 16, kLeastBar = 4;

// Of UTF-8: a code point is taken for a column.
int64_t width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

std::string progress_line(const std::string& label, double share, const std::string& note,
                          int64_t columns) {
  const std::string after = fmt::format("{:3.0f}%  {}", share * 100, note);
  int64_t bar = kBarWidth;
  if (columns > 0) {
    const int64_t others = width(label) + width(after);
    bar = std::min(bar, columns - others - 4);  // brackets and spaces
  }
  std::string line = label + " ";
  if (bar >= kLeastBar) {
    const auto full =
        std::clamp<int64_t>(static_cast<int64_t>(share * static_cast<double>(bar)), 0, bar);
    line += fmt::format("[{}{}] ", std::string(static_cast<size_t>(full), '#'),
                        std::string(static_cast<size_t>(bar - full), '.'));
  }
  line += after;
  return columns > 0 ? fmt::format("{:.{}}", line, columns) : line;
}

}  // namespace tern::train
