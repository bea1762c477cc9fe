// Classifies characters by utf8proc's general categories and the exceptions of XID_Start and
// XID_Continue. No text is normalised.
#include "tern/core/ops/einsum/identifier.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace tern::detail {
namespace {

using Range = std::array<int32_t, 2>;

template <size_t N>
bool among(int32_t c, const std::array<Range, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const Range& r) { return c >= r[0] && c <= r[1]; });
}

// Unicode's XID_Start and XID_Continue are general categories with these exceptions (UAX 31):
// characters that older versions classed as letters, and characters whose normal form is no
// identifier.
constexpr std::array<Range, 3> kStarts = {{{0x1885, 0x1886}, {0x2118, 0x2118}, {0x212e, 0x212e}}};
constexpr std::array<Range, 4> kContinues = {
    {{0xb7, 0xb7}, {0x387, 0x387}, {0x1369, 0x1371}, {0x19da, 0x19da}}};
constexpr std::array<Range, 4> kNever = {
    {{0x37a, 0x37a}, {0x2e2f, 0x2e2f}, {0xfc5e, 0xfc63}, {0xfdfa, 0xfdfb}}};
constexpr std::array<Range, 3> kNeverFirst = {{{0xe33, 0xe33}, {0xeb3, 0xeb3}, {0xff9e, 0xff9f}}};

bool never(int32_t c) { return among(c, kNever) || (c >= 0xfe70 && c <= 0xfe7e && c % 2 == 0); }

bool is_letter(int32_t c) {
  const utf8proc_category_t category = utf8proc_category(c);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         category == UTF8PROC_CATEGORY_NL;
}

bool is_mark_or_digit(int32_t c) {
  const utf8proc_category_t category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_PC;
}

bool starts(int32_t c) {
  if (c == '_' || among(c, kStarts)) return true;
  return is_letter(c) && !never(c) && !among(c, kNeverFirst);
}

bool goes_on(int32_t c) {
  if (among(c, kStarts) || among(c, kContinues)) return true;
  return (is_letter(c) || is_mark_or_digit(c)) && !never(c);
}

}  // namespace

bool is_identifier(std::string_view text) {
  bool first = true;
  while (!text.empty()) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t bytes =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), &c);
    if (bytes <= 0 || !(first ? starts(c) : goes_on(c))) return false;
    text.remove_prefix(static_cast<size_t>(bytes));
    first = false;
  }
  return !first;
}

}  // namespace tern::detail
