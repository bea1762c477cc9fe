// BERT's basic tokenization: cleans a text, strips accents, lowers letters, and cuts it at spaces,
// punctuation and Chinese characters.
#include <algorithm>
#include <array>

#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/bert_text.h"
#include "tern/data/text/wordpiece/wordpiece.h"

namespace tern::datasets {
namespace {

struct Range {
  char32_t first, last;
};
// The blocks of Chinese characters as in the tokenizers package (Google's code begins extension E
// at U+2B820).
constexpr std::array<Range, 8> kCjk = {{{0x4E00, 0x9FFF},
                                        {0x3400, 0x4DBF},
                                        {0x20000, 0x2A6DF},
                                        {0x2A700, 0x2B73F},
                                        {0x2B740, 0x2B81F},
                                        {0x2B920, 0x2CEAF},
                                        {0xF900, 0xFAFF},
                                        {0x2F800, 0x2FA1F}}};

bool is_cjk(char32_t c) {
  return std::any_of(kCjk.begin(), kCjk.end(),
                     [c](const Range& r) { return r.first <= c && c <= r.last; });
}

}  // namespace

namespace detail {

bool is_bert_mark(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && classify(c) == CharacterClass::other;
  return is_punctuation(c);
}

std::string bert_clean(std::string_view text, const BertCleaning& options) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const bool line = c == '\t' || c == '\n' || c == '\r';
    if (options.clean && !line && (c == kReplacementCharacter || is_control(c))) continue;
    if (options.clean && (line || is_space(c))) {
      out += ' ';
    } else if (options.split_cjk && is_cjk(c)) {
      out += ' ';
      append_utf8(out, c);
      out += ' ';
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

std::string without_accents(std::string_view text) {
  const std::string decomposed = nfd(text);
  std::string out;
  out.reserve(decomposed.size());
  for (size_t at = 0; at < decomposed.size();)
    if (const char32_t c = next_code_point(decomposed, at); !is_nonspacing_mark(c))
      append_utf8(out, c);
  return out;
}

}  // namespace detail

std::vector<std::string> basic_tokens(std::string_view text, const WordPieceOptions& options) {
  std::string clear = detail::bert_clean(text, {.split_cjk = options.split_cjk});
  if (options.strip_accents.value_or(options.lower)) clear = detail::without_accents(clear);
  if (options.lower) clear = lower_letters(clear);
  std::vector<std::string> words;
  bool open = false;  // whether the next character continues the last word
  for (size_t at = 0; at < clear.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(clear, at);
    const bool mark = detail::is_bert_mark(c);
    if (is_space(c)) {
      open = false;
    } else if (open && !mark) {
      words.back().append(clear, begin, at - begin);
    } else {
      words.emplace_back(clear, begin, at - begin);
      open = !mark;
    }
  }
  return words;
}

}  // namespace tern::datasets
