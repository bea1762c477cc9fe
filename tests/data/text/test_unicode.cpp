// UTF-8, character classes, normal forms, case, graphemes and widths, against Python and Unicode.
#include <doctest/doctest.h>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/words/normalize.h"

namespace tern::test_unicode {
using namespace tern::datasets;

TEST_CASE("unicode: invalid UTF-8 is found at its first byte") {
  CHECK(!find_invalid_utf8(""));
  CHECK(!find_invalid_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82"));
  CHECK(find_invalid_utf8("ab\xE9 c") == 2);                // Latin-1
  CHECK(find_invalid_utf8("\xC0\xAF") == 0);                // overlong
  CHECK(find_invalid_utf8("x\xED\xA0\x80") == 1);           // a surrogate
  CHECK(find_invalid_utf8("x\xE2\x82") == 1);               // cut off
  CHECK(find_invalid_utf8("\xF4\x90\x80\x80") == 0);        // above U+10FFFF
  CHECK(find_invalid_utf8(std::string("\0\x80", 2)) == 1);  // NUL is a character
  CHECK(replace_invalid_utf8("a\xE9z") == "a\xEF\xBF\xBDz");
}

TEST_CASE("unicode: is_space equals Python's str.isspace") {
  std::string spaces = " ";
  for (char32_t c = 0; c < 0x3100; ++c)
    if (is_space(c)) append_utf8(spaces, c);
  CHECK(code_points(spaces).size() == 30);  // 29 in Python's str.isspace, and the first
  CHECK(split_spaces(spaces).empty());
  CHECK(split_spaces("a\xC2\xA0"
                     "b" +
                     spaces + "c ") == std::vector<std::string_view>{"a", "b", "c"});
  CHECK(strip_spaces(spaces + "a b" + spaces) == "a b");
  CHECK(strip_spaces(spaces).empty());
  CHECK(split_spaces("a\u200Bb").size() == 1);  // a zero-width space is not white space
}

TEST_CASE("unicode: NFD separates letters and accents; marks, controls, punctuation") {
  CHECK(nfd("éx") == "e\u0301x");
  CHECK(nfd("각") == "\u1100\u1161\u11A8");
  CHECK(nfd("q\u0307\u0323") == "q\u0323\u0307");
  CHECK_THROWS_AS(nfd("\xE9"), Error);
  for (char32_t c : {U'\u0301', U'\u05BF'}) CHECK(is_nonspacing_mark(c));
  for (char32_t c : {U'e', U'\u0903', U'\u20DD'}) CHECK_FALSE(is_nonspacing_mark(c));
  for (char32_t c : {U'\0', U'\n', U'\u200B', U'\uFEFF', U'\uE000'}) CHECK(is_control(c));
  for (char32_t c : {U' ', U'a', U'\u2028', U'\u0378'}) CHECK_FALSE(is_control(c));
  for (char32_t c : {U'.', U'_', U'«', U'。', U'\u2019'}) CHECK(is_punctuation(c));
  for (char32_t c : {U'$', U'+', U'a', U' '}) CHECK_FALSE(is_punctuation(c));
  CHECK(lower_letters("ΑΣ ÉİQ\xFF") == "ασ éi\u0307q\uFFFD");
}

TEST_CASE("unicode: NFC composes and orders accents") {
  CHECK(nfc("e\u0301") == "é");
  CHECK(nfc("\u212B") == "Å");  // the sign for ångström
  CHECK(nfc("q\u0307\u0323") == "q\u0323\u0307");
  CHECK(nfc("\u1100\u1161\u11A8") == "각");
  CHECK(nfc("ﬁ") == "ﬁ");  // compatibility forms stay
  CHECK_THROWS_AS(nfc("\xFF"), Error);
  CHECK(nfkc("e\u0301 ﬁ²") == "é fi2");
  CHECK(nfkd("é ﬁ²") == "e\u0301 fi2");
}

TEST_CASE("unicode: lower case as Python's str.lower") {
  CHECK(lower_case("HELLO Wörld ÀÉÎ ŒUVRE ẞ") == "hello wörld àéî œuvre ß");
  CHECK(lower_case("İstanbul I") == "i\u0307stanbul i");
  CHECK(lower_case("ΟΔΥΣΣΕΥΣ ΟΔΟΣ. Σ ΑΣΑ Α'Σ'Α Σ'Α") == "οδυσσευς οδος. σ ασα α'σ'α σ'α");
  CHECK(lower_case("ПРИВЕТ ǅ Ω") == "привет ǆ ω");
}

TEST_CASE("unicode: graphemes are what a reader sees as one character") {
  CHECK(graphemes("").empty());
  CHECK(graphemes("e\u0301a") == std::vector<std::string_view>{"e\u0301", "a"});
  CHECK(graphemes("👩‍👩‍👧👍🏽").size() == 2);
  CHECK(graphemes("🇫🇷🇩🇪").size() == 2);
  CHECK(graphemes("\u1112\u1161\u11AB!").size() == 2);  // Korean letters that make one syllable
  CHECK(graphemes("\r\n").size() == 1);
}

TEST_CASE("unicode: display width as Python's wcwidth.wcswidth gives it") {
  // clang-format off
  const std::pair<const char*, int> rows[] = {{"", 0}, {"go", 2}, {"日本語", 6}, {"👩‍👩‍👧", 2},
                                         {"🇫🇷", 2}, {"❤\uFE0F", 2}, {"❤", 1}, {"e\u0301", 1},
                                         {"각", 2}, {"👍🏽", 2}, {"नमस्ते", 4}, {"\u200B", 0},
                                         {"\uFEFF", 0}, {"ｆｕ", 4}, {"…", 1}, {"│", 1},
                                         {"1\uFE0F\u20E3", 2}, {"ก็", 1}, {"🙂", 2}, {"🇫🇷🇩🇪", 4},
                                         {"a\u0308o", 2}, {"שָׁלוֹם", 4}, {"مرحبا", 5},
                                         {"\u1112\u1161\u11AB", 2}};
  // clang-format on
  for (const auto& row : rows) CHECK_MESSAGE(display_width(row.first) == row.second, row.first);
}

TEST_CASE("unicode: cutting to a width keeps characters whole") {
  CHECK(cut_to_width("hello", 5) == "hello");
  CHECK(cut_to_width("hello", 4) == "hel…");
  CHECK(cut_to_width("hello", 1) == "…");
  CHECK(cut_to_width("日本語", 6) == "日本語");
  CHECK(cut_to_width("日本語", 5) == "日本…");
  CHECK(cut_to_width("日本語", 4) == "日…");
  CHECK(cut_to_width("ae\u0301iou", 3) == "ae\u0301…");
  CHECK(cut_to_width("", 1) == "");
  CHECK_THROWS_AS(cut_to_width("a", 0), Error);
  CHECK(has_right_to_left("a שלום"));
  CHECK(has_right_to_left("مر"));
  CHECK(!has_right_to_left("été 日本 1"));
}

TEST_CASE("normalize: NFC, case, spaces, and the form of d2l.ai") {
  CHECK(normalize("  e\u0301 \t\u202F Va\xC2\xA0!\n") == "é Va !");
  CHECK(normalize("A B", {.lower = true}) == "a b");
  CHECK(normalize("A  B", {.spaces = false}) == "A  B");
  CHECK(normalize("") == "");
  CHECK(normalize("\xFF") == "\uFFFD");
  const auto d2l = NormalizeOptions::d2l_form();
  CHECK(normalize("Go.", d2l) == "go .");
  CHECK(normalize("Ça alors\u202F!", d2l) == "ça alors !");
  CHECK(normalize("He's calm, isn't he?", d2l) == "he's calm , isn't he ?");
  CHECK(normalize(".Well...", d2l) == ".well . . .");
  CHECK(normalize("1,000; a:b", d2l) == "1 ,000; a:b");
}

TEST_CASE("unicode: one_line replaces line ends and control characters") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", ""},
      {"a b", "a b"},
      {" a  b ", " a  b "},
      {"a\nb\r\nc\td", "a b c d"},
      {"\n a \n b\n", "a b"},
      {"a\u2028b\u2029c\u0085d\v\fe", "a b c d e"},
      {"\x1b[2J\a\x7f x\u009b", "\uFFFD[2J\uFFFD\uFFFD x\uFFFD"},
      {"a\xffz", "a\uFFFDz"},
      {"👩\u200D👧 می\u200Cخ", "👩\u200D👧 می\u200Cخ"},
  };
  for (const auto& [text, expected] : rows) CHECK(one_line(text) == expected);
  CHECK(one_line(std::string("a\0b", 3)) == "a\uFFFDb");
}

TEST_CASE("unicode: case of letters") {
  CHECK((is_small('a') && is_small(U'é') && is_small(U'ß') && is_small(U'я')));
  CHECK((is_capital('A') && is_capital(U'É') && is_capital(U'Я')));
  CHECK_FALSE((is_small('A') || is_small('1') || is_small(U'日') || is_capital(U'日')));
}

}  // namespace tern::test_unicode
