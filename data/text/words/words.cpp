// Cuts text into words and marks, and marks the spaces that word_spacing.cpp does not expect;
// joins them again.
#include "tern/data/text/words/words.h"

#include <algorithm>
#include <array>

#include "tern/data/text/words/scripts.h"
#include "tern/data/text/words/word_characters.h"
#include "tern/data/text/words/word_spacing.h"

namespace tern::datasets {
namespace {

using std::string_view;
using Characters = detail::WordCharacters;

// Elided French words before an apostrophe.
constexpr std::array<string_view, 15> kElided = {"l",      "d",      "j",      "m",      "t",
                                                 "s",      "c",      "n",      "qu",     "jusqu",
                                                 "lorsqu", "puisqu", "quoiqu", "quelqu", "presqu"};
constexpr size_t kLongestElided = 6;

bool is_elided(const Characters& c, size_t begin, size_t end) {
  return end - begin <= kLongestElided &&
         std::find(kElided.begin(), kElided.end(), c.lower(begin, end)) != kElided.end();
}

// The end of the clitic whose apostrophe is at i; i if there is none.
size_t clitic_end(const Characters& c, size_t i) {
  if (!c.is_apostrophe(i)) return i;
  size_t end = i + 1;
  while (c.is_word(end) && end - i <= 3) ++end;
  const bool whole = !c.is_word(end) && !c.is_apostrophe(end);
  return whole && end > i + 1 && detail::is_clitic(c.lower(i + 1, end)) ? end : i;
}

bool is_sign(char32_t c) { return c == '-' || c == '+' || c == 0x2212 || c == 0xB1; }

// Whether a number with a sign begins at i.
bool is_signed(const Characters& c, size_t i) {
  if (!is_sign(c.at(i)) || !c.is_digit(i + 1)) return false;
  constexpr std::u32string_view kBefore = U"([{=<>«“‘\"'/:";
  return i == 0 || c.is_space(i - 1) || kBefore.find(c.at(i - 1)) != kBefore.npos;
}

// Whether the character at i, which is not a letter or digit, belongs inside a word.
bool joins(const Characters& c, size_t i) {
  if (i == 0 || !c.is_word(i - 1)) return false;
  const char32_t mark = c.at(i);
  // Also at the end: "Limonade- und Bierdosen".
  if (mark == '-' || mark == 0x2010 || mark == 0x2011) return c.at(i + 1) != mark;
  if (!c.is_word(i + 1)) return false;
  if (mark == 0xAD || mark == 0x200C || mark == 0x200D)
    return true;  // a soft hyphen, (non-)joiners
  if (mark == '.' && c.is_letter(i - 1) && c.is_letter(i + 1)) return true;
  return (mark == '.' || mark == ',' || mark == ':') && c.is_digit(i - 1) && c.is_digit(i + 1);
}

size_t word_end(const Characters& c, size_t begin) {
  size_t part = begin;  // part of a compound, for elision in "dit-on qu'il"
  for (size_t i = begin + 1; i < c.size(); ++i) {
    if (c.is_word(i)) continue;
    if (c.is_apostrophe(i) && c.is_word(i + 1)) {
      if (is_elided(c, part, i)) return i + 1;
      if (clitic_end(c, i) > i) return i;
      continue;
    }
    if (!joins(c, i)) return i;
    part = i + 1;
  }
  return c.size();
}

size_t token_end(const Characters& c, size_t begin) {
  if (const size_t end = c.address_end(begin); end > begin) return end;
  if (c.is_word(begin)) return word_end(c, begin);
  if (is_signed(c, begin)) return word_end(c, begin + 1);
  if (begin > 0 && c.is_word(begin - 1))
    if (const size_t end = clitic_end(c, begin); end > begin) return end;
  return detail::is_unspaced(c.at(begin)) ? c.grapheme_end(begin) : c.run_end(begin);
}

/// Tokens, and whether the text has a space before each (except the first).
struct SpacedWords {
  std::vector<std::string> words;
  std::vector<bool> spaces;
};

SpacedWords spaced_words(string_view text) {
  const Characters characters(text);
  SpacedWords out;
  bool space = false;
  for (size_t i = 0; i < characters.size();) {
    if (characters.is_space(i)) {
      space = !out.words.empty();
      ++i;
      continue;
    }
    const size_t end = token_end(characters, i);
    out.words.emplace_back(characters.text(i, end));
    out.spaces.push_back(space);
    space = false;
    i = end;
  }
  return out;
}

}  // namespace

std::vector<std::string> split_words(string_view text) { return spaced_words(text).words; }

std::vector<std::string> mark_words(string_view text) {
  SpacedWords all = spaced_words(text);
  const std::vector<bool> expected = detail::default_spaces(all.words);
  std::vector<std::string> out = all.words;
  for (size_t i = 1; i < out.size(); ++i) {
    if (all.spaces[i] == expected[i]) continue;
    const string_view mark = all.spaces[i] ? detail::kSpace : detail::kGlue;
    const detail::MarkPlace place = detail::place_of_mark(all.words[i - 1], all.words[i]);
    if (place == detail::MarkPlace::after) out[i - 1] += mark;
    if (place == detail::MarkPlace::before) out[i].insert(0, mark);
  }
  return out;
}

string_view without_marks(string_view token) { return detail::parse_marks(token).word; }

std::string join_words(std::span<const std::string> tokens) {
  std::vector<std::string> words;
  std::vector<detail::MarkedWord> marked;
  for (const std::string& token : tokens) {
    marked.push_back(detail::parse_marks(token));
    words.emplace_back(marked.back().word);
  }
  const std::vector<bool> expected = detail::default_spaces(words);
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool space =
        marked[i].before.value_or(i > 0 ? marked[i - 1].after.value_or(expected[i]) : false);
    if (i > 0 && space) out += ' ';
    out += words[i];
  }
  return out;
}

}  // namespace tern::datasets
