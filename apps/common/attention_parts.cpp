#include "tern/apps/common/attention_parts.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode.h"

namespace tern::apps {

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

}  // namespace tern::apps
