#include <doctest/doctest.h>

#include "tern/data/text/unicode.h"
#include "tern/data/text/words.h"

using namespace tern;
using namespace tern::data;

namespace {

std::string cut(const std::string& text) {
  std::string out;
  for (const std::string& word : split_words(text)) out += (out.empty() ? "" : "|") + word;
  return out;
}

}  // namespace

TEST_CASE("words: cut at spaces and punctuation") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", ""},
      {"   ", ""},
      {"Two men, at a stove.", "Two|men|,|at|a|stove|."},
      {"Zwei Männer (jung)?!", "Zwei|Männer|(|jung|)|?|!"},
      {"Don't panic (l'homme's 1,000.50 e-mails)...",
       "Don't|panic|(|l'|homme|'s|1,000.50|e-mails|)|..."},
      {"I'd say they're the boys' dogs; it's 12:30",
       "I|'d|say|they|'re|the|boys|'|dogs|;|it|'s|12:30"},
      {"Aujourd'hui, qu'il m’aime d'un L'Œuf", "Aujourd'hui|,|qu'|il|m’|aime|d'|un|L'|Œuf"},
      {"Est-ce qu'elle a-t-elle dit-on", "Est-ce|qu'|elle|a-t-elle|dit-on"},
      {"a - b--c -d e-", "a|-|b|--|c|-|d|e-"},
      {"the U.S. at 3.5% or .5, e.g. x.y", "the|U.S|.|at|3.5|%|or|.|5|,|e.g|.|x.y"},
      {"\"Hi\" 'x' $5 a_b @z", "\"|Hi|\"|'|x|'|$|5|a_b|@|z"},
      {"日本 e\u0301a 🙂🙂", "日本|e\u0301a|🙂🙂"},
      {"it's's o'clock rock'n'roll", "it's|'s|o'clock|rock'n'roll"},
  };
  for (const auto& [text, expected] : rows) CHECK(cut(text) == expected);
}

TEST_CASE("words: text from tokens") {
  const std::vector<std::string> restored = {
      "Two men, at a stove.",
      "Zwei Männer (jung)?!",
      "Don't panic (l'homme's 1,000.50 e-mails)...",
      "I'd say they're here; it's 12:30.",
      "Aujourd'hui, qu'il m’aime d'un L'Œuf",
      "He said \"go away\" and 'no' to \"them\".",
      "a - b and/or c [d] {e} 3.5% of $5",
      "«oui», “yes” ¿no? und „nein“, dann „doch“.",
      "Limonade- und Bierdosen, Ein-, Zwei- und Dreirad",
  };
  for (const std::string& text : restored) CHECK(join_words(split_words(text)) == text);
  // Spaces that cutting does not see are the ones of the rules.
  CHECK(join_words(split_words("Va  ! A\" b \"c")) == "Va! A \"b\" c");
  CHECK(join_words({}) == "");
}

TEST_CASE("words: nothing but spaces is lost from any text") {
  const std::vector<std::string> odd = {"'",  "''s",   "'s",     "a'",       "-",
                                        "l'", "l''a",  "s's's",  "\xFF\xC3", "\"\"\"",
                                        "…",  "'''''", "a’s’d’", "qu’’"};
  for (const std::string& text : odd) {
    std::string all;
    for (const std::string& word : split_words(text)) {
      CHECK(!word.empty());
      all += word;
    }
    CHECK(all == text);
    join_words(split_words(text));
  }
}
