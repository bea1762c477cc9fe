#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/attention_parts.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode.h"

namespace tern::apps {
namespace {

constexpr int64_t kMostHoverCells = 10000, kLongestLabel = 18, kLongestTitle = 60;

// A token within a line of text; isolates keep one that runs from right to left from turning the
// line around.
std::string in_line(const std::string& token) {
  const std::string text = printable(token, kOpenBox);
  return data::has_right_to_left(text) ? "\u2068" + text + "\u2069" : text;
}

std::vector<std::string> labels(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  for (const std::string& token : tokens)
    out.push_back(data::cut_to_width(printable(token, kOpenBox), kLongestLabel));
  return out;
}

}  // namespace

double attention_shade(float weight) {
  if (std::isnan(weight)) return static_cast<double>(weight);
  return std::sqrt(std::clamp(static_cast<double>(weight), 0.0, 1.0));
}

void check_attention(const AttentionMatrix& m) {
  check(m.weights.size() == m.rows.size() * m.columns.size(),
        "attention: {} weights for {} rows and {} columns in \"{}\"", m.weights.size(),
        m.rows.size(), m.columns.size(), m.title);
}

std::string printable(std::string_view text, char32_t space) {
  constexpr char32_t kControlPictures = 0x2400, kDelete = 0x7F, kDeletePicture = 0x2421;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = data::next_code_point(text, at);
    const bool turns =
        c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    if (turns) continue;
    if (c < 0x20) {
      data::append_utf8(out, kControlPictures + c);
    } else if (c == kDelete) {
      data::append_utf8(out, kDeletePicture);
    } else if (data::is_space(c)) {
      data::append_utf8(out, space);
    } else if (c < 0xA0 && c > kDelete) {
      data::append_utf8(out, data::kReplacementCharacter);
    } else {
      data::append_utf8(out, c);
    }
  }
  return out;
}

Bitmap attention_bitmap(const AttentionMatrix& m) {
  check_attention(m);
  return color_cells(m.weights, std::ssize(m.rows), std::ssize(m.columns),
                     [](float w) { return weight_color(attention_shade(w)); });
}

Drawing draw_attention(const AttentionMatrix& m, bool hover, int thumbnail) {
  const size_t n = std::max(m.rows.size(), m.columns.size());
  const Bitmap cells = attention_bitmap(m);
  MatrixStyle style = {.description = printable(m.title, U' '),
                       .columns = labels(m.columns),
                       .rows = labels(m.rows),
                       .cell = n <= 10   ? 26
                               : n <= 12 ? 22
                               : n <= 28 ? 18
                               : n <= 48 ? 15
                                         : 12,
                       .thumbnail = thumbnail};
  style.title = data::cut_to_width(style.description, kLongestTitle);
  if (hover && std::ssize(m.weights) <= kMostHoverCells)
    style.hover = [&](int64_t row, int64_t column) {
      const auto r = static_cast<size_t>(row), c = static_cast<size_t>(column);
      return fmt::format("{} ← {}: {:.3f}", in_line(m.rows[r]), in_line(m.columns[c]),
                         m.weights[r * m.columns.size() + c]);
    };
  return draw_matrix(cells, style);
}

std::string attention_legend() {
  BarTicks ticks;
  for (const float w : {0.F, .05F, .2F, .5F, 1.F})
    ticks.emplace_back(attention_shade(w), fmt::format("{:g}", w));
  return color_bar(ticks, weight_color);
}

}  // namespace tern::apps
