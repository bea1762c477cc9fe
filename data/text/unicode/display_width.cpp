// Graphemes and their width in terminal columns, by utf8proc's tables.
#include <utf8proc.h>

#include <algorithm>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

constexpr char32_t kEmojiStyle = 0xFE0F;  // requests the coloured form, which is wide

bool is_regional_indicator(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }

// Terminals give a cluster the width of its widest part: parts of a joined emoji, or vowels of a
// Korean syllable, are not side by side. Flags are pairs of narrow letters.
int64_t grapheme_width(std::string_view grapheme) {
  int width = 0, indicators = 0;
  for (size_t at = 0; at < grapheme.size();) {
    const char32_t c = next_code_point(grapheme, at);
    if (c == kEmojiStyle && width > 0) width = 2;
    indicators += is_regional_indicator(c);
    width = std::max(width, utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)));
  }
  return indicators == 2 ? 2 : width;
}

}  // namespace

std::vector<std::string_view> graphemes(std::string_view text) {
  std::vector<std::string_view> out;
  utf8proc_int32_t before = 0, state = 0;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const auto c = static_cast<utf8proc_int32_t>(next_code_point(text, at));
    if (here > 0 && utf8proc_grapheme_break_stateful(before, c, &state)) {
      out.push_back(text.substr(begin, here - begin));
      begin = here;
    }
    before = c;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  for (std::string_view g : graphemes(text)) width += grapheme_width(g);
  return width;
}

std::string cut_to_width(std::string_view text, int64_t width) {
  check(width >= 1, "cut_to_width: {} columns leave no room for the ellipsis", width);
  if (display_width(text) <= width) return std::string(text);
  std::string out;
  int64_t used = 1;
  for (std::string_view g : graphemes(text)) {
    used += grapheme_width(g);
    if (used > width) break;
    out += g;
  }
  return out + "…";
}

bool has_right_to_left(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(next_code_point(text, at));
    const auto direction = utf8proc_get_property(c)->bidi_class;
    if (direction == UTF8PROC_BIDI_CLASS_R || direction == UTF8PROC_BIDI_CLASS_AL) return true;
  }
  return false;
}

}  // namespace tern::datasets
