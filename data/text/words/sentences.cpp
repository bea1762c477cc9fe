// Finds the end of a sentence from its mark, from what follows it, and from a list of
// abbreviations.
#include "tern/data/text/words/sentences.h"

#include <algorithm>
#include <array>
#include <string>

#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

// Abbreviations in English, French and German that do not end a sentence, in lower case.
constexpr std::array<std::string_view, 34> kAbbreviations = {
    "mr", "mrs", "ms",   "dr",  "prof", "st",     "mt",  "vs",  "etc", "eg",  "e.g", "i.e",
    "cf", "no",  "nr",   "vol", "fig",  "approx", "jr",  "sr",  "inc", "ltd", "mme", "mlle",
    "av", "bd",  "p.ex", "ca",  "bzw",  "usw",    "z.b", "d.h", "hr",  "fr"};

constexpr std::u32string_view kEnds = U".!?…؟।", kWideEnds = U"。！？";
constexpr std::u32string_view kClosing = U"\"'’”»)]}›」』）】";

bool among(char32_t c, std::u32string_view list) { return list.find(c) != list.npos; }

/// The position after all characters that pass the test, from `at` on.
template <class Test>
size_t past_all(std::string_view text, size_t at, Test test) {
  for (size_t next = at; next < text.size() && test(next_code_point(text, next));) at = next;
  return at;
}

size_t past(std::string_view text, size_t at, std::u32string_view list) {
  return past_all(text, at, [&](char32_t c) { return among(c, list); });
}

size_t past_spaces(std::string_view text, size_t at) { return past_all(text, at, is_space); }

/// Whether the full stop at text[at] belongs to the word before it. Reads only a few bytes.
bool is_abbreviation(std::string_view text, size_t at) {
  constexpr size_t kLongest = 12;
  size_t begin = at;
  while (begin > 0 && at - begin <= kLongest && text[begin - 1] != ' ' && text[begin - 1] != '(' &&
         text[begin - 1] != '\n')
    --begin;
  const std::string word = lower_case(text.substr(begin, at - begin));
  const bool letter = code_points(word).size() == 1 && !find_invalid_utf8(word) && [&] {
    size_t first = 0;
    return classify(next_code_point(word, first)) == CharacterClass::letter && word != "i";
  }();
  return letter ||
         std::find(kAbbreviations.begin(), kAbbreviations.end(), word) != kAbbreviations.end();
}

/// Whether a sentence may begin at text[at].
bool may_begin(std::string_view text, size_t at) {
  const char32_t c = next_code_point(text, at);
  return !is_small(c) && !among(c, U",;:.!?)]}»”…");
}

/// The end of the sentence whose end mark is at text[at]; `at` if the mark does not end one.
size_t sentence_end(std::string_view text, size_t at) {
  size_t next = at;
  const char32_t mark = next_code_point(text, next);
  if (among(mark, kWideEnds)) return past(text, past(text, next, kWideEnds), kClosing);
  if (!among(mark, kEnds)) return at;
  size_t end = past(text, past(text, next, kEnds), kClosing);
  // French has a space before a closing quote.
  if (const size_t quote = past_spaces(text, end); quote > end && past(text, quote, U"»") > quote)
    end = past(text, quote, U"»");
  const size_t begin = past_spaces(text, end);
  if (begin < text.size() && (begin == end || !may_begin(text, begin))) return at;
  return mark == '.' && end == next && is_abbreviation(text, at) ? at : end;
}

}  // namespace

std::vector<std::string_view> split_sentences(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  auto close = [&](size_t end) {
    const std::string_view sentence = strip_spaces(text.substr(begin, end - begin));
    if (!sentence.empty()) out.push_back(sentence);
    begin = end;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t end = sentence_end(text, at);
    if (end > at) {
      close(end);
      at = end;
    } else {
      // Checks a run of marks only once.
      if (among(next_code_point(text, at), kEnds)) at = past(text, at, kEnds);
    }
  }
  close(text.size());
  return out;
}

}  // namespace tern::datasets
