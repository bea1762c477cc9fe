// TextCoverage: words, scripts and letter case that a tokenizer has not seen. Also where sentences
// end.
#include <doctest/doctest.h>

#include "tern/data/text/tokenizer/coverage.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/words/scripts.h"
#include "tern/data/text/words/sentences.h"

namespace tern::test_text_coverage {

using namespace tern::datasets;

namespace {

/// `count` lines of a word of five letters, twice: "aaaaa aaaaa", ...
std::vector<std::string> many_words(const std::string& letters, int64_t count) {
  const std::vector<std::string_view> alphabet = code_points(letters);
  std::vector<std::string> lines;
  for (int64_t i = 0; i < count; ++i) {
    std::string word;
    for (int64_t n = i, k = 0; k < 5; ++k, n /= std::ssize(alphabet))
      word += alphabet[static_cast<size_t>(n % std::ssize(alphabet))];
    lines.push_back(word + " " + word);
  }
  return lines;
}

std::string joined(const std::vector<std::string_view>& parts) {
  std::string out;
  for (std::string_view part : parts) out += (out.empty() ? "" : "|") + std::string(part);
  return out;
}

}  // namespace

TEST_CASE("coverage: lines with more than half of their words unknown are reported") {
  const std::vector<std::string> texts = {"the cat sat on the mat .", "a dog ate 3 of them !"};
  const TextCoverage coverage(Tokenizer::learn(texts, {}));
  const Unseen line = coverage.look("The zebra ate the xylophone, quickly!");
  CHECK(line.words == 7);  // the comma was never seen
  CHECK(line.unknown == 5);
  CHECK(line.mostly_unknown());
  CHECK(line.summary() == "5 of 7 words are unknown");
  const Unseen half = coverage.look("the zebra !");
  CHECK(half.words == 2);
  CHECK(half.unknown == 1);
  CHECK_FALSE(half.any());
  CHECK_FALSE(coverage.look("").any());
  CHECK_FALSE(coverage.look("! . !").any());
}

TEST_CASE("coverage: unseen scripts and letter case are reported, by words and by BPE") {
  for (const TokenUnit unit : {TokenUnit::words, TokenUnit::bpe}) {
    TokenizerOptions options{.unit = unit};
    const std::vector<std::string> texts = many_words("aeiouéstr", 4000);
    const TextCoverage small(Tokenizer::learn(texts, options));
    CHECK(small.look("a été rus").scripts.empty());
    CHECK(small.look("Привет ета").scripts == std::vector<std::string>{"Cyrillic"});
    CHECK(small.look("你好 καλημέρα").scripts == std::vector<std::string>{"Greek", "Han"});
    CHECK_FALSE(small.look("Привет").capitals);  // the script says enough
    CHECK(small.look("Saure ates").capitals);
    CHECK_FALSE(small.look("Saure ates").small_letters);
    const TextCoverage large(Tokenizer::learn(many_words("AEIOUÉSTR", 4000), options));
    CHECK(large.look("aeiou").small_letters);
    CHECK_FALSE(large.look("AEIOU").capitals);
    std::vector<std::string> mixed = texts;
    for (std::string& line : mixed) line = "A" + line;
    const TextCoverage sentences(Tokenizer::learn(mixed, options));
    CHECK(sentences.look("STURIA TERRAE").capital_words);
    CHECK_FALSE(sentences.look("Asturia aterrae").capital_words);
    options.normalize.lower = true;
    const TextCoverage lower(Tokenizer::learn(mixed, options));
    CHECK_FALSE(lower.look("STURIA").capitals);  // the tokenizer lowers them
    const TextCoverage few(Tokenizer::learn(many_words("aei", 20), options));
    CHECK(few.look("Привет").scripts.empty());
  }
}

TEST_CASE("coverage: scripts of letters") {
  using datasets::detail::script_of;
  const std::vector<std::pair<char32_t, std::string_view>> rows = {
      {U'a', "Latin"}, {U'é', "Latin"},     {U'Ω', "Greek"},   {U'я', "Cyrillic"}, {U'ش', "Arabic"},
      {U'日', "Han"},  {U'か', "Japanese"}, {U'한', "Hangul"}, {U'ก', "Thai"},     {U'𠀀', "Han"},
      {U'\uE000', ""}, {U'!', ""},          {U'\0', ""}};
  for (const auto& [letter, script] : rows) CHECK(script_of(letter) == script);
  CHECK((datasets::detail::is_unspaced(U'日') && datasets::detail::is_unspaced(U'ก') &&
         !datasets::detail::is_unspaced(U'한')));
}

TEST_CASE("sentences: end marks, abbreviations, quotes and other scripts") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", ""},
      {"  ", ""},
      {"One. Two! Three? Four", "One.|Two!|Three?|Four"},
      {"Mr. Smith met Dr. No at 5 p.m. today.", "Mr. Smith met Dr. No at 5 p.m. today."},
      {"J. S. Bach wrote it. He did.", "J. S. Bach wrote it.|He did."},
      {"He said \"Go!\" and went. \"Why?\" She left.",
       "He said \"Go!\" and went.|\"Why?\"|She left."},
      {"Where are they ?  « Ici. » Bon... Et toi ?!", "Where are they ?|« Ici. »|Bon...|Et toi ?!"},
      {"It is 3.5 m. That is all", "It is 3.5 m. That is all"},
      {"你好。你好吗？“很好。”我走", "你好。|你好吗？|“很好。”|我走"},
      {"هل؟ نعم. لا", "هل؟|نعم.|لا"},
      {"हाँ। नहीं।", "हाँ।|नहीं।"},
      {"... a. . b", "... a. . b"},
  };
  for (const auto& [text, expected] : rows) CHECK(joined(split_sentences(text)) == expected);
}

}  // namespace tern::test_text_coverage
