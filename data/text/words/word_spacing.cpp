// Rules for spaces around marks, quotes, clitics, numbers and unspaced scripts; reads the marks ￭
// and ▁ and decides where they go.
#include "tern/data/text/words/word_spacing.h"

#include <algorithm>
#include <array>

#include "tern/data/text/words/scripts.h"
#include "tern/data/text/words/word_characters.h"

namespace tern::datasets::detail {
namespace {

using std::string_view;

constexpr std::array<string_view, 6> kClitics = {"s", "re", "ve", "ll", "d", "m"};

// Marks that have no space before them, and those that have none after.
constexpr std::u32string_view kClosing =
    U",.;:!?)]}%…»”’›/°،؛؟۔।॥‰"
    U"、。，．：；！？）］｝〕】〉》」』〗〙〛～";
constexpr std::u32string_view kOpening =
    U"([{«“‘¿¡$£‹/„#@"
    U"（［｛〔【〈《「『〖〘〚、。，．：；！？）］｝〕】〉》」』〗〙〛～";
// Signs that have no spaces around them between two numbers.
constexpr std::u32string_view kOperators = U"+=×÷·*<>^−~∶";

bool among(char32_t c, std::u32string_view list) { return list.find(c) != list.npos; }

/// The first code point; 0 if the word is empty.
char32_t first(string_view word) {
  size_t at = 0;
  return word.empty() ? 0 : next_code_point(word, at);
}

/// The code point that the word repeats, such as the full stop of "..."; 0 if it has several.
char32_t run_of(string_view word) {
  const char32_t mark = first(word);
  for (size_t at = 0; at < word.size();)
    if (next_code_point(word, at) != mark) return 0;
  return mark;
}

// Removes the apostrophe at the beginning or end; returns the word itself if there is none.
string_view without_apostrophe(string_view word, bool at_end) {
  for (string_view apostrophe : {"'", "’"}) {
    if (word.size() <= apostrophe.size()) continue;
    if (at_end && word.ends_with(apostrophe))
      return word.substr(0, word.size() - apostrophe.size());
    if (!at_end && word.starts_with(apostrophe)) return word.substr(apostrophe.size());
  }
  return word;
}

bool has_clitic(string_view word) {
  const string_view rest = without_apostrophe(word, false);
  return rest.size() < word.size() && rest.size() <= 2 && is_clitic(lower_case(rest));
}

bool is_elision(string_view word) { return without_apostrophe(word, true).size() < word.size(); }

bool begins_with_number(string_view word) { return classify(first(word)) == CharacterClass::digit; }
bool is_number(string_view word) {
  if (begins_with_number(word)) return true;
  size_t at = 0;
  const char32_t sign = word.empty() ? 0 : next_code_point(word, at);
  return among(sign, U"-+−±") && begins_with_number(word.substr(at));
}

/// Whether the word begins with a letter, digit or _ of a script with spaces.
bool is_word(string_view word) {
  const char32_t c = first(word);
  const CharacterClass kind = classify(c);
  return (kind == CharacterClass::letter || kind == CharacterClass::digit || c == '_') &&
         !is_unspaced(c);
}

/// What a token decides about the space behind it.
struct Before {
  bool glues = true;      ///< no space after it
  bool unspaced = false;  ///< begins with a letter of a script without spaces
  bool word = false, number = false, number_operator = false;
};

class Spacing {
 public:
  /// Whether a space belongs before `word`; `next` is the one behind it, empty at the end.
  bool space_before(string_view word, string_view next) {
    const char32_t mark = run_of(word);
    const bool quote = word == "\"" || word == "'";
    const bool closes_low = low_open_ && word == "“";
    bool* const inside = quote ? &open_[word == "'"] : nullptr;
    const bool sum = before_.number && among(mark, kOperators) && is_number(next);
    const bool unspaced = is_unspaced(first(word));
    const bool closes = quote ? *inside
                              : closes_low || among(mark, kClosing) || has_clitic(word) || sum ||
                                    (word == "++" && before_.word);
    const bool between =
        unspaced ? before_.unspaced || before_.word : before_.unspaced && is_word(word);
    const bool space =
        !before_.glues && !closes && !between && !(before_.number_operator && is_number(word));
    before_ = {
        .glues = quote ? !*inside : (!closes_low && among(mark, kOpening)) || is_elision(word),
        .unspaced = unspaced,
        .word = is_word(word),
        .number = is_number(word),
        .number_operator = sum};
    if (quote) *inside = !*inside;
    low_open_ = word == "„" || (low_open_ && !closes_low);
    return space;
  }

 private:
  Before before_;
  std::array<bool, 2> open_ = {false, false};  // whether a straight double or single quote is open
  bool low_open_ = false;                      // whether „ is open, which “ closes
};

/// Length of the mark that the text begins or ends with; 0 for none.
size_t mark_length(string_view text, bool at_end, std::optional<bool>& space) {
  for (string_view mark : {kGlue, kSpace}) {
    if (text.size() <= mark.size()) continue;
    if (at_end ? !text.ends_with(mark) : !text.starts_with(mark)) continue;
    space = mark == kSpace;
    return mark.size();
  }
  return 0;
}

bool is_literal_mark(string_view word) {
  const char32_t c = first(word);
  return c == kGlueMark || c == kSpaceMark;
}

bool is_punctuation_token(string_view word) {
  const CharacterClass kind = classify(first(word));
  return kind == CharacterClass::other && !is_number(word);
}

}  // namespace

bool is_clitic(string_view word) {
  return std::find(kClitics.begin(), kClitics.end(), word) != kClitics.end();
}

std::vector<bool> default_spaces(std::span<const std::string> words) {
  Spacing spacing;
  std::vector<bool> out;
  for (size_t i = 0; i < words.size(); ++i)
    out.push_back(spacing.space_before(words[i], i + 1 < words.size() ? words[i + 1] : ""));
  return out;
}

MarkedWord parse_marks(string_view token) {
  MarkedWord out{token, {}, {}};
  if (run_of(token) != 0 && is_literal_mark(token)) return out;
  out.word.remove_prefix(mark_length(out.word, false, out.before));
  out.word.remove_suffix(mark_length(out.word, true, out.after));
  return out;
}

MarkPlace place_of_mark(string_view left, string_view right) {
  const bool left_free = !is_literal_mark(left), right_free = !is_literal_mark(right);
  if (!left_free && !right_free) return MarkPlace::none;
  if (!right_free) return MarkPlace::after;
  if (!left_free || is_punctuation_token(right)) return MarkPlace::before;
  return is_punctuation_token(left) || is_elision(left) || is_unspaced(first(left))
             ? MarkPlace::after
             : MarkPlace::before;
}

}  // namespace tern::datasets::detail
