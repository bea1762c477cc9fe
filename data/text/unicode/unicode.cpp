// UTF-8, character classes, normal forms and lower case, by utf8proc's tables. display_width.cpp
// has graphemes and widths.
#include "tern/data/text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/canonical_order.h"

namespace tern::datasets {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2;
constexpr char32_t kDottedCapitalI = 0x130, kDotAbove = 0x307;
// All forms of apostrophes, full stops, colons and middle dots: Word_Break is Single_Quote,
// MidLetter or MidNumLet.
constexpr std::u32string_view kWordPunctuation =
    U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";

const utf8proc_uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

// Length of the sequence that starts at text[at]; 0 if it is invalid.
size_t sequence_at(std::string_view text, size_t at, char32_t& code_point) {
  utf8proc_int32_t c = -1;
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
  const utf8proc_ssize_t length = utf8proc_iterate(bytes(text) + at, left, &c);
  if (length <= 0 || c < 0) return 0;
  code_point = static_cast<char32_t>(c);
  return static_cast<size_t>(length);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

bool is_cased(char32_t c) {
  const auto u = static_cast<utf8proc_int32_t>(c);
  return utf8proc_category(u) == UTF8PROC_CATEGORY_LT || utf8proc_islower(u) || utf8proc_isupper(u);
}

// Characters to skip when searching for the end of a word.
bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return kWordPunctuation.find(c) != std::u32string_view::npos;
  }
}

// A capital sigma is final if a cased letter precedes it and none follows it. Case-ignorable
// characters in between do not count.
bool is_final_sigma(const std::u32string& text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

// Converts one letter without regard to its neighbours.
void append_lower(std::string& to, char32_t c) {
  if (c == kDottedCapitalI) {
    to += 'i';
    append_utf8(to, kDotAbove);
  } else {
    append_utf8(to, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

std::string mapped(const char* what, std::string_view text, int form) {
  if (is_ascii(text)) return std::string(text);
  utf8proc_uint8_t* out = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form);
  const std::string ordered = find_invalid_utf8(text) ? std::string(text)  // which utf8proc refuses
                                                      : detail::canonical_order(text);
  const auto n =
      utf8proc_map(bytes(ordered), static_cast<utf8proc_ssize_t>(ordered.size()), &out, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, std::free);
  check(n >= 0, "{}: {}", what, utf8proc_errmsg(n));
  return {reinterpret_cast<const char*>(out), static_cast<size_t>(n)};
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  char32_t c = kReplacementCharacter;
  at += std::max<size_t>(1, sequence_at(text, at, c));
  return c;
}

std::string replace_invalid_utf8(std::string_view text) {
  if (!find_invalid_utf8(text)) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) append_utf8(out, next_code_point(text, at));
  return out;
}

std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    next_code_point(text, at);
    out.push_back(text.substr(begin, at - begin));
  }
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

CharacterClass classify(char32_t c) {
  if (is_space(c)) return CharacterClass::space;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME)
    return CharacterClass::letter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
    return CharacterClass::digit;
  return CharacterClass::other;
}

bool is_small(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0; }
bool is_capital(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0; }

bool is_control(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(char32_t c) {
  const utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool is_nonspacing_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

std::vector<std::string_view> split_spaces(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if (!is_space(next_code_point(text, at))) continue;
    if (here > begin) out.push_back(text.substr(begin, here - begin));
    begin = at;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

std::string_view strip_spaces(std::string_view text) {
  const std::vector<std::string_view> parts = split_spaces(text);
  if (parts.empty()) return text.substr(0, 0);
  const char* end = parts.back().data() + parts.back().size();
  return {parts.front().data(), static_cast<size_t>(end - parts.front().data())};
}

std::string one_line(std::string_view text) {
  std::string out;
  bool gap = false;  // a space replaces control characters, unless the text has one
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const utf8proc_category_t k = category(c);
    const bool control =
        k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
    if (control && is_space(c)) {
      gap = true;
      continue;
    }
    if (gap && !out.empty() && out.back() != ' ' && c != ' ') out += ' ';
    if (gap && c == ' ' && (out.empty() || out.back() == ' ')) continue;
    gap = false;
    append_utf8(out, control ? kReplacementCharacter : c);
  }
  return out;
}

std::string nfc(std::string_view text) { return mapped("nfc", text, UTF8PROC_COMPOSE); }

std::string nfd(std::string_view text) { return mapped("nfd", text, UTF8PROC_DECOMPOSE); }

std::string nfkc(std::string_view text) {
  return mapped("nfkc", text, UTF8PROC_COMPAT | UTF8PROC_COMPOSE);
}

std::string nfkd(std::string_view text) {
  return mapped("nfkd", text, UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE);
}

std::string lower_letters(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_lower(out, next_code_point(text, at));
  return out;
}

std::string lower_case(std::string_view text) {
  if (is_ascii(text)) return lower_ascii(std::string(text));
  std::string out;
  out.reserve(text.size());
  std::u32string all;
  for (size_t at = 0; at < text.size();) all += next_code_point(text, at);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kCapitalSigma) {
      append_utf8(out, is_final_sigma(all, i) ? kFinalSigma : kSmallSigma);
    } else {
      append_lower(out, all[i]);
    }
  }
  return out;
}

}  // namespace tern::datasets
