// Classifies the characters of a line, and finds its graphemes, URLs and mail addresses.
#include "tern/data/text/words/word_characters.h"

#include <algorithm>

#include "tern/data/text/words/scripts.h"

namespace tern::datasets::detail {
namespace {

bool is_mark_of_ours(char32_t c) { return c == kGlueMark || c == kSpaceMark; }

CharacterClass class_of(char32_t c) {
  if (c == '_') return CharacterClass::letter;
  const CharacterClass kind = classify(c);
  // Each letter of an unspaced script is a token, so it does not count as a letter of a word.
  return kind == CharacterClass::letter && is_unspaced(c) ? CharacterClass::other : kind;
}

bool is_ascii_letter(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

}  // namespace

WordCharacters::WordCharacters(std::string_view text) : text_(text) {
  for (std::string_view grapheme : graphemes(text)) {
    bool begins = true;
    for (size_t at = 0; at < grapheme.size();) {
      const size_t offset = static_cast<size_t>(grapheme.data() - text.data()) + at;
      const char32_t c = next_code_point(grapheme, at);
      // White space and our marks begin a grapheme, whatever stands before them.
      begins = begins || is_mark_of_ours(c) || datasets::is_space(c);
      all_.push_back({c, offset, class_of(c), begins, all_.size()});
      begins = is_mark_of_ours(c);  // an accent behind a mark is not part of it
    }
  }
  find_addresses();
}

std::string_view WordCharacters::text(size_t begin, size_t end) const {
  const size_t to = end < size() ? all_[end].offset : text_.size();
  return text_.substr(all_[begin].offset, to - all_[begin].offset);
}

size_t WordCharacters::grapheme_end(size_t i) const {
  size_t end = i + 1;
  while (end < size() && !all_[end].begins_grapheme) ++end;
  return end;
}

size_t WordCharacters::run_end(size_t i) const {
  const size_t length = grapheme_end(i) - i;
  size_t end = i + length;
  auto same = [&] {
    for (size_t k = 0; k < length; ++k)
      if (at(end + k) != at(i + k)) return false;
    return grapheme_end(end) == end + length;
  };
  while (end + length <= size() && same()) end += length;
  return end;
}

// The beginning of the letters before "://"; `colon` if there are none.
size_t WordCharacters::url_begin(size_t colon) const {
  size_t begin = colon;
  while (begin > 0 && is_ascii_letter(at(begin - 1))) --begin;
  return begin;
}

// The end of a URL: before white space, and before final marks that belong to the sentence.
size_t WordCharacters::url_end(size_t from) const {
  size_t end = from;
  while (end < size() && !is_space(end) && at(end) != '<' && at(end) != '>' && at(end) != '"' &&
         !is_mark_of_ours(at(end)) && at(end) < 0x2E80)
    ++end;
  bool round = false, square = false;  // brackets that open inside may close at the end
  for (size_t i = from; i < end; ++i) {
    round = round || at(i) == '(';
    square = square || at(i) == '[';
  }
  constexpr std::u32string_view kSentence = U".,;:!?'’”»…";
  auto belongs = [&](char32_t c) {
    return kSentence.find(c) != kSentence.npos || (c == ')' && !round) || (c == ']' && !square);
  };
  while (end > from && belongs(at(end - 1))) --end;
  return end;
}

bool WordCharacters::is_mail_character(size_t i) const {
  const char32_t c = at(i);
  return is_word(i) || c == '.' || c == '-' || c == '+';
}

void WordCharacters::add_address(size_t begin, size_t end) {
  // An address does not end inside a grapheme. Of two that begin here, the longer one counts.
  if (end < size() && !all_[end].begins_grapheme) return;
  all_[begin].address_end = std::max(all_[begin].address_end, end);
}

// Each search begins where the previous one ended, so all of them take linear time.
void WordCharacters::find_addresses() {
  size_t free = 0;  // end of the previous address
  for (size_t i = 0; i < size(); ++i) {
    if (at(i) == ':' && at(i + 1) == '/' && at(i + 2) == '/') {
      const size_t begin = std::max(free, url_begin(i)), end = url_end(i + 3);
      if (begin == i || end <= i + 3) continue;
      add_address(begin, end);
      i = (free = end) - 1;
    } else if (at(i) == 'w' && text(i, std::min(size(), i + 4)) == "www." &&
               (i == free || !is_word(i - 1)) && is_word(i + 4)) {
      const size_t end = url_end(i);
      add_address(i, end);
      i = (free = std::max(end, i + 1)) - 1;
    } else if (at(i) == '@') {
      size_t begin = i, end = i + 1, dots = 0;
      while (begin > free && is_mail_character(begin - 1)) --begin;
      while (begin < i && !is_word(begin)) ++begin;
      while (end < size() && is_mail_character(end) && at(end) != '+') dots += at(end++) == '.';
      const size_t seen = end;
      while (end > i + 1 && !is_word(end - 1)) dots -= at(--end) == '.';
      if (begin < i && dots > 0) add_address(begin, end);
      free = std::max(seen, i + 1);
      i = free - 1;
    }
  }
}

}  // namespace tern::datasets::detail
