// Tokenises a sentence for BLEU: by the rules of mteval-v13a, by characters, or by words.
#include "tern/data/scores/bleu.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

using std::string_view;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }

// The space and the ASCII marks except ' - . ,
bool stands_alone(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, string_view from, string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Replaces as a regular expression of two one-character groups does, from left to right and without
// overlaps: where first(a) && second(b), inserts `before`, `between` and `after` around a and b.
// Digits and points are ASCII, so bytes give the same result as code points.
template <class First, class Second>
std::string substitute(string_view text, First first, Second second, string_view before,
                       string_view between, string_view after) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && first(text[i]) && second(text[i + 1])) {
      out.append(before).append(1, text[i]).append(between).append(1, text[i + 1]).append(after);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string tokenize_13a(string_view sentence) {
  std::string text(sentence);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  std::string spaced = " ";
  for (char c : text) {
    if (stands_alone(c))
      spaced.append(1, ' ').append(1, c).append(1, ' ');
    else
      spaced += c;
  }
  spaced += ' ';
  const auto no_digit = [](char c) { return !is_digit(c); };
  const auto dash = [](char c) { return c == '-'; };
  spaced = substitute(spaced, no_digit, is_point, "", " ", " ");
  spaced = substitute(spaced, is_point, no_digit, " ", " ", "");
  return substitute(spaced, is_digit, dash, "", " ", " ");
}

}  // namespace

std::string bleu_tokenize(string_view sentence, BleuTokens tokens) {
  const std::string text =
      tokens == BleuTokens::v13a ? tokenize_13a(sentence) : std::string(sentence);
  std::string out;
  for (string_view word : split_spaces(text)) {
    if (tokens != BleuTokens::character) {
      if (!out.empty()) out += ' ';
      out += word;
      continue;
    }
    for (string_view character : code_points(word)) {
      if (!out.empty()) out += ' ';
      out += character;
    }
  }
  return out;
}

}  // namespace tern::datasets
