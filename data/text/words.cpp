#include "tern/data/text/words.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tern/data/text/unicode.h"

namespace tern::data {
namespace {

using std::string_view;

// Before an apostrophe in French, and after one in English.
constexpr std::array<string_view, 15> kElided = {"l",      "d",      "j",      "m",      "t",
                                                 "s",      "c",      "n",      "qu",     "jusqu",
                                                 "lorsqu", "puisqu", "quoiqu", "quelqu", "presqu"};
constexpr std::array<string_view, 6> kClitics = {"s", "re", "ve", "ll", "d", "m"};

// Marks that have no space before them, and those that have none after.
constexpr std::array<string_view, 16> kClosing = {",", ".", ";", ":", "!", "?", ")", "]",
                                                  "}", "%", "…", "»", "”", "’", "›", "/"};
constexpr std::array<string_view, 13> kOpening = {"(", "[", "{", "«", "“", "‘", "¿",
                                                  "¡", "$", "£", "‹", "/", "„"};

bool among(string_view word, auto& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// A line as code points with their classes.
class Characters {
 public:
  explicit Characters(string_view text) : text_(text) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = next_code_point(text, at);
      all_.push_back({c, begin, c == '_' ? CharacterClass::letter : classify(c)});
    }
  }

  size_t size() const { return all_.size(); }
  char32_t at(size_t i) const { return i < all_.size() ? all_[i].code_point : 0; }
  bool is_space(size_t i) const { return all_[i].kind == CharacterClass::space; }
  bool is_letter(size_t i) const { return i < size() && all_[i].kind == CharacterClass::letter; }
  bool is_digit(size_t i) const { return i < size() && all_[i].kind == CharacterClass::digit; }
  bool is_word(size_t i) const { return is_letter(i) || is_digit(i); }
  bool is_apostrophe(size_t i) const { return at(i) == '\'' || at(i) == 0x2019; }

  string_view text(size_t begin, size_t end) const {
    const size_t to = end < size() ? all_[end].offset : text_.size();
    return text_.substr(all_[begin].offset, to - all_[begin].offset);
  }
  std::string lower(size_t begin, size_t end) const { return lower_case(text(begin, end)); }

 private:
  struct Character {
    char32_t code_point;
    size_t offset;
    CharacterClass kind;
  };
  string_view text_;
  std::vector<Character> all_;
};

// End of the clitic whose apostrophe is at i, or i if there is none.
size_t clitic_end(const Characters& c, size_t i) {
  if (!c.is_apostrophe(i)) return i;
  size_t end = i + 1;
  while (c.is_word(end) && end - i <= 3) ++end;
  const bool whole = !c.is_word(end) && !c.is_apostrophe(end);
  return whole && end > i + 1 && among(c.lower(i + 1, end), kClitics) ? end : i;
}

// Whether the character at i, no letter or digit, stays inside of a word.
bool joins(const Characters& c, size_t i) {
  if (i == 0 || !c.is_word(i - 1)) return false;
  const char32_t mark = c.at(i);
  // At the end too: "Limonade- und Bierdosen".
  if (mark == '-' || mark == 0x2010 || mark == 0x2011) return c.at(i + 1) != mark;
  if (!c.is_word(i + 1)) return false;
  if (mark == '.' && c.is_letter(i - 1) && c.is_letter(i + 1)) return true;
  return (mark == '.' || mark == ',' || mark == ':') && c.is_digit(i - 1) && c.is_digit(i + 1);
}

size_t word_end(const Characters& c, size_t begin) {
  size_t part = begin;  // of a compound, for the elision in "dit-on qu'il"
  for (size_t i = begin + 1; i < c.size(); ++i) {
    if (c.is_word(i)) continue;
    if (c.is_apostrophe(i) && c.is_word(i + 1)) {
      if (among(c.lower(part, i), kElided)) return i + 1;
      if (clitic_end(c, i) > i) return i;
      continue;
    }
    if (!joins(c, i)) return i;
    part = i + 1;
  }
  return c.size();
}

size_t token_end(const Characters& c, size_t begin) {
  if (c.is_word(begin)) return word_end(c, begin);
  if (begin > 0 && c.is_word(begin - 1))
    if (const size_t end = clitic_end(c, begin); end > begin) return end;
  size_t end = begin + 1;
  while (end < c.size() && c.at(end) == c.at(begin)) ++end;
  return end;
}

// A run of one mark, like "...": is the mark in the list?
bool run_of(string_view word, auto& list) {
  if (word.empty()) return false;
  size_t length = 0;
  next_code_point(word, length);
  const string_view mark = word.substr(0, length);
  for (size_t at = 0; at < word.size(); at += length)
    if (word.substr(at, length) != mark) return false;
  return among(mark, list);
}

// Without the apostrophe it begins or ends with; the word itself if there is none.
string_view without_apostrophe(string_view word, bool at_end) {
  for (string_view apostrophe : {"'", "’"}) {
    if (word.size() <= apostrophe.size()) continue;
    if (at_end && word.ends_with(apostrophe))
      return word.substr(0, word.size() - apostrophe.size());
    if (!at_end && word.starts_with(apostrophe)) return word.substr(apostrophe.size());
  }
  return word;
}

bool is_clitic(string_view word) {
  const string_view rest = without_apostrophe(word, false);
  return rest.size() < word.size() && among(lower_case(rest), kClitics);
}

}  // namespace

std::vector<std::string> split_words(string_view text) {
  const Characters characters(text);
  std::vector<std::string> words;
  for (size_t i = 0; i < characters.size();) {
    const size_t end = characters.is_space(i) ? i + 1 : token_end(characters, i);
    if (!characters.is_space(i)) words.emplace_back(characters.text(i, end));
    i = end;
  }
  return words;
}

std::string join_words(std::span<const std::string> words) {
  std::string out;
  std::array<bool, 2> open = {false, false};  // a straight double, single quote
  bool low_open = false;                      // „, which “ closes
  bool glued = true;                          // no space before the next word
  for (const std::string& word : words) {
    const bool quote = word == "\"" || word == "'";
    const bool closes_low = low_open && word == "“";
    bool* const inside = quote ? &open[word == "'"] : nullptr;
    const bool closes = quote ? *inside : closes_low || run_of(word, kClosing) || is_clitic(word);
    if (!glued && !closes) out += ' ';
    out += word;
    glued = quote ? !*inside
                  : (!closes_low && run_of(word, kOpening)) ||
                        without_apostrophe(word, true).size() < word.size();
    if (quote) *inside = !*inside;
    low_open = word == "„" || (low_open && !closes_low);
  }
  return out;
}

}  // namespace tern::data
