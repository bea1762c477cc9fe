// A line of text as words.h analyses it. Inside of data only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {

/// Characters with which words.h marks tokens where a space is missing or added. In a text they are
/// tokens.
inline constexpr char32_t kGlueMark = 0xFFED, kSpaceMark = 0x2581;
inline constexpr std::string_view kGlue = "￭", kSpace = "▁";

/// A line as code points with their classes. Indices beyond the end have no class.
class WordCharacters {
 public:
  explicit WordCharacters(std::string_view text);

  size_t size() const { return all_.size(); }
  char32_t at(size_t i) const { return i < all_.size() ? all_[i].code_point : 0; }
  bool is_space(size_t i) const { return i < size() && all_[i].kind == CharacterClass::space; }
  /// A letter of a script with spaces between words.
  bool is_letter(size_t i) const { return i < size() && all_[i].kind == CharacterClass::letter; }
  bool is_digit(size_t i) const { return i < size() && all_[i].kind == CharacterClass::digit; }
  bool is_word(size_t i) const { return is_letter(i) || is_digit(i); }
  bool is_apostrophe(size_t i) const { return at(i) == '\'' || at(i) == 0x2019; }

  /// The end of the grapheme that contains character i.
  size_t grapheme_end(size_t i) const;
  /// The end of the run of equal graphemes that begins at i.
  size_t run_end(size_t i) const;
  /// The end of the URL or mail address that begins at i; i if none does.
  size_t address_end(size_t i) const { return i < size() ? all_[i].address_end : i; }

  std::string_view text(size_t begin, size_t end) const;
  std::string lower(size_t begin, size_t end) const { return lower_case(text(begin, end)); }

 private:
  struct Character {
    char32_t code_point;
    size_t offset;
    CharacterClass kind;
    bool begins_grapheme;
    size_t address_end;
  };
  void find_addresses();
  size_t url_begin(size_t colon) const;
  size_t url_end(size_t from) const;
  bool is_mail_character(size_t i) const;
  void add_address(size_t begin, size_t end);

  std::string_view text_;
  std::vector<Character> all_;
};

}  // namespace tern::datasets::detail
