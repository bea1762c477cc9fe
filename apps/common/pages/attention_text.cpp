// Attention matrices as lines for a terminal, with 256 colours or block characters.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tern/apps/common/pages/attention.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::apps {
namespace {

constexpr int64_t kLeastWidth = 20, kLongestRowLabel = 18, kTallestHeading = 12, kCellColumns = 2;
constexpr std::string_view kSeparator = " │";
constexpr int64_t kSeparatorWidth = 2;

constexpr std::string_view kBlocks[] = {"  ", "░░", "▒▒", "▓▓", "██"};
// White to dark blue in the 6 x 6 x 6 cube of the 256 terminal colours; each darker than the last.
constexpr int kTerminalBlues[] = {231, 189, 153, 117, 75, 33, 26, 19, 17};
constexpr int kTerminalGrey = 245;

// `shade` on a scale of `count` steps.
size_t step(double shade, size_t count) {
  return static_cast<size_t>(std::lround(shade * static_cast<double>(count - 1)));
}

// The smallest weight that is shown in step k of n: the inverse of attention_shade.
double threshold(size_t k, size_t n) {
  const double shade = (static_cast<double>(k) - .5) / static_cast<double>(n - 1);
  return shade * shade;
}

std::string background(int color) { return fmt::format("\x1b[48;5;{}m", color); }
constexpr std::string_view kReset = "\x1b[0m";

std::string spaces(int64_t n) {
  return std::string(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
}

// Encloses right-to-left text in marks of zero width, so that its neighbours keep their places.
std::string in_place(std::string_view text) {
  constexpr std::string_view kLeftToRight = "\u200E";
  if (!datasets::has_right_to_left(text)) return std::string(text);
  return fmt::format("{0}{1}{0}", kLeftToRight, text);
}

void strip_trailing_spaces(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

// Tokens written downwards, one grapheme per line, ending above their columns.
std::string heading(const std::vector<std::string>& tokens, int64_t indent) {
  std::vector<std::vector<std::string>> stacks;
  size_t height = 0;
  for (const std::string& token : tokens) {
    std::vector<std::string> stack;
    for (std::string_view g : datasets::graphemes(token)) stack.emplace_back(g);
    if (std::ssize(stack) > kTallestHeading) {
      stack.resize(kTallestHeading - 1);
      stack.emplace_back("⋮");
    }
    height = std::max(height, stack.size());
    stacks.push_back(std::move(stack));
  }
  std::string out;
  for (size_t y = 0; y < height; ++y) {
    std::string line = spaces(indent);
    for (const auto& stack : stacks) {
      const size_t gap = height - stack.size();
      const std::string_view g = y < gap ? std::string_view() : std::string_view(stack[y - gap]);
      line += in_place(g) + spaces(kCellColumns - datasets::display_width(g));
    }
    strip_trailing_spaces(line);
    out += line + '\n';
  }
  return out;
}

// The cells of row r from column `begin` up to `end`.
std::string cells(const AttentionMatrix& m, size_t r, size_t begin, size_t end, bool colour) {
  std::string out;
  int current = -1;
  for (size_t c = begin; c < end; ++c) {
    const double shade = attention_shade(m.weights[r * m.columns.size() + c]);
    if (!colour) {
      out += std::isnan(shade) ? "??" : kBlocks[step(shade, std::size(kBlocks))];
      continue;
    }
    const int color =
        std::isnan(shade) ? kTerminalGrey : kTerminalBlues[step(shade, std::size(kTerminalBlues))];
    if (color != current) out += background(color);
    current = color;
    out += spaces(kCellColumns);
  }
  if (colour) {
    out += kReset;
  } else {
    strip_trailing_spaces(out);
  }
  return out;
}

// Says up to which weight each shade is used; takes several lines if one is too narrow.
std::string legend(int64_t width, bool colour) {
  const size_t n = colour ? std::size(kTerminalBlues) : std::size(kBlocks);
  std::string out = "weight to";
  int64_t used = std::ssize(out);
  for (size_t k = 0; k < n; ++k) {
    const std::string number =
        k + 1 == n ? "1" : fmt::format("{:.2g}", threshold(k + 1, n)).substr(1);
    const std::string swatch = colour ? fmt::format("{}  {}", background(kTerminalBlues[k]), kReset)
                                      : std::string(kBlocks[k]);
    const int64_t item = 2 + 5 + std::ssize(number);  // the gap, brackets, space and number
    if (used + item > width) out += '\n';
    used = used + item > width ? item - 2 : used + item;
    out += fmt::format("{}[{}] {}", out.back() == '\n' ? "" : "  ", swatch, number);
  }
  return out + '\n';
}

}  // namespace

std::string attention_text(const AttentionMatrix& m, int width, bool colour) {
  check_attention(m);
  const int64_t room = std::max<int64_t>(width, kLeastWidth);
  std::string out = in_place(datasets::cut_to_width(printable(m.title, U' '), room)) + '\n';
  if (m.weights.empty()) return out + "no weights\n";
  std::vector<std::string> columns, rows;
  int64_t label = 1;
  for (const std::string& token : m.columns) columns.push_back(printable(token, kOpenBox));
  for (const std::string& token : m.rows) {
    rows.push_back(
        datasets::cut_to_width(printable(token, kOpenBox), std::min(kLongestRowLabel, room / 3)));
    label = std::max(label, datasets::display_width(rows.back()));
  }
  // Parts of about the same size.
  const auto most = static_cast<size_t>((room - label - kSeparatorWidth) / kCellColumns);
  const size_t parts = (columns.size() + most - 1) / most;
  const size_t part = (columns.size() + parts - 1) / parts;
  for (size_t begin = 0; begin < columns.size(); begin += part) {
    const size_t end = std::min(begin + part, columns.size());
    if (begin > 0) out += '\n';
    if (part < columns.size())
      out += datasets::cut_to_width(
                 fmt::format("source tokens {}-{} of {}", begin + 1, end, columns.size()), room) +
             '\n';
    const auto first = columns.begin();
    out += heading({first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end)},
                   label + kSeparatorWidth);
    for (size_t r = 0; r < rows.size(); ++r)
      out += fmt::format("{}{}{}{}\n", spaces(label - datasets::display_width(rows[r])),
                         in_place(rows[r]), kSeparator, cells(m, r, begin, end, colour));
  }
  return out + legend(room, colour);
}

}  // namespace tern::apps
