// Words: cutting, marking and joining texts of many scripts, and linear time.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tern/core/base/rng.h"
#include "tern/data/text/tokenizer/tokenizer.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/words/words.h"

namespace tern::test_words {
using namespace tern::datasets;

namespace {

std::string with_bars(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : "|") + word;
  return out;
}

std::string cut(const std::string& text) { return with_bars(split_words(text)); }

/// What people write, beyond the rules of English prose.
const std::vector<std::string> kWritten = {
    "Où sont les villages ?",
    "Where are the villages?",
    "« Bonjour », dit-il : « 50 % de rabais ! »",
    "“Hello”, he said: 50% off!",
    "5×6=30",
    "5 × 6 = 30",
    "2+2=4, 1 < 2 and 3^2",
    "C++ and C# (not F#)",
    "It is -5 degrees, −5 in print; 10 - 5, a-b, ±0.5 %",
    "#tag #two @me",
    "see https://example.org/a_(b)?q=1&r=%20#x, or www.x.org/y.",
    "(http://example.org/path) mail to first.last+tag@mail.example.org!",
    "你好，世界。“很好”（2008年）我爱 Python 语言！",
    "これはペンです。カタカナー、が\u3099と「かぎ」？",
    "ฉันไปโรงเรียน วันนี้ กำลัง",
    "هل تتكلم العربية؟ نعم، قليلا؛ می\u200Cخواهم",
    "हिन्दी में। और भी॥",
    "👩\u200D👩\u200D👧 👍🏽👍🏽 ❤\uFE0F 🇫🇷🇩🇪 1\uFE0F\u20E3 😀🙂",
    "rock 'n' roll, the '90s, 6' 2\" tall, \"quoted\"",
    "l' homme d'ici, l’ été, it 's",
    "a/b, a / b; and/ or... what?! e.g.,so",
    "20 °C, 20°C, 5 € or €5, £3, 3£",
    "x=1; f(x)=y[i]--; $HOME/bin ~user `code` a_b",
    "Don't panic (l'homme's 1,000.50 e-mails)...",
};

std::string random_line(Rng& rng) {
  static const std::vector<std::string> kParts = {
      " ",      "a", "it's",  "'",      "’",      "l'",     "\"", "-",  "--",     "5",
      "6.5",    ",", ".",     "(",      ")",      "«",      "»",  "×",  "=",      "+",
      "#",      "@", "a@b.c", "://",    "ab",     "你",     "，", "が", "\u3099", "ไ",
      "ำ",      "🇫", "🇷",     "👍",      "🏽",   "\u200D", "„",  "“",  "”",      "°",
      "\uFE0F", "؟", "www.",  "\u0600", "\u00AD", "C++",    "/",  "_"};
  std::string s;
  for (int64_t n = rng.below(14); n > 0; --n)
    s += kParts[static_cast<size_t>(rng.below(std::ssize(kParts)))];
  return normalize(s);
}

/// Whether f() ends within this many seconds of processor time.
template <class F>
bool ends_within(int64_t seconds, F f) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds)};
    setrlimit(RLIMIT_CPU, &limit);
    f();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
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
      {"日本 e\u0301a 🙂🙂", "日|本|e\u0301a|🙂🙂"},
      {"it's's o'clock rock'n'roll", "it's|'s|o'clock|rock'n'roll"},
  };
  for (const auto& [text, expected] : rows) CHECK(cut(text) == expected);
}

TEST_CASE("words: join_words restores texts") {
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
  // Cutting does not keep spaces, so join_words puts them by its rules.
  CHECK(join_words(split_words("Va  ! A\" b \"c")) == "Va! A \"b\" c");
  CHECK(join_words({}) == "");
}

TEST_CASE("words: splitting any text loses only spaces") {
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

TEST_CASE("words: addresses, numbers with signs, emoji, scripts without spaces") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"see https://a.org/b_(c)?d=1.", "see|https://a.org/b_(c)?d=1|."},
      {"(http://a.org/b), <ftp://x/y>", "(|http://a.org/b|)|,|<|ftp://x/y|>"},
      {"www.a.org, wwww.b", "www.a.org|,|wwww.b"},
      {"me.too+x@mail.org. a@b @c d@", "me.too+x@mail.org|.|a|@|b|@|c|d|@"},
      {"at -5 or (+3.5) but 4-5 and a -b", "at|-5|or|(|+3.5|)|but|4-5|and|a|-|b"},
      {"哈哈，ペン", "哈|哈|，|ペ|ン"},
      {"กำลัง", "กำ|ลั|ง"},
      {"👩\u200D👩\u200D👧x 👍🏽👍🏽 🇫🇷🇩🇪 ❤\uFE0F!",
       "👩\u200D👩\u200D👧|x|👍🏽👍🏽|🇫🇷|🇩🇪|❤\uFE0F|!"},
      {"می\u200Cخواهم", "می\u200Cخواهم"},
  };
  for (const auto& [text, expected] : rows) CHECK(cut(text) == expected);
}

TEST_CASE("words: marked tokens restore what people write") {
  for (const std::string& text : kWritten) CHECK(join_words(mark_words(text)) == text);
  CHECK(with_bars(mark_words("Où ? 5 × 6=30 a-b")) == "Où|▁?|5|▁×▁|6|=|30|a-b");
  CHECK(with_bars(mark_words("l' homme, x!y")) == "l|￭'▁|homme|,|x|!￭|y");
  for (const char* text : {"5×6=30", "C++ x", "#tag", "at -5", "你好，世界。", "؟", "نعم، لا"})
    CHECK(join_words(split_words(text)) == text);  // without marks
  CHECK(without_marks("▁×▁") == "×");
  CHECK(without_marks("▁▁") == "▁▁");
  CHECK(join_words(mark_words("a ▁ b ￭￭ c")) == "a ▁ b ￭￭ c");
}

TEST_CASE("words: join_words(mark_words(s)) == s for random lines") {
  Rng rng(7);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random_line(rng);
    INFO(text);
    REQUIRE(join_words(mark_words(text)) == text);
    std::string bare, spaceless;
    for (const std::string& word : mark_words(text)) bare += without_marks(word);
    for (std::string_view part : split_spaces(text)) spaceless += part;
    REQUIRE(bare == spaceless);
  }
}

TEST_CASE("words: the time for a line is linear in its length") {
  // Linear work takes at most a second, quadratic work minutes.
  const std::vector<std::string> parts = {"aa'", "a@",       "a://", "a.b@", "www.",
                                          "ɑ́",   "Σ'",       "-a",   "\"",   "5×",
                                          "哈",  "👍🏽", ")",    "'",    "http://a))"};
  CHECK(ends_within(60, [&] {
    for (const std::string& part : parts) {
      std::string line;
      while (line.size() < (1 << 20)) line += part;
      join_words(mark_words(line));
      join_words(mark_words("http://(" + line));
    }
  }));
}

TEST_CASE("words: many accents are ordered correctly and without quadratic time") {
  CHECK(ends_within(60, [&] {
    std::string line = "a";
    while (line.size() < (1 << 20)) line += "\u0301\u0323";
    nfc(line);
    nfd(line);
  }));
  // Long runs are sorted as short ones: by class, keeping the order of equals.
  std::string mixed, below, above;
  for (int i = 0; i < 40; ++i) {
    const char* const over = i % 3 ? "\u0302" : "\u0308";
    mixed += std::string(over) + (i % 2 ? "\u0331" : "\u032D");
    below += i % 2 ? "\u0331" : "\u032D";
    above += over;
  }
  CHECK(nfd("q" + mixed + "y") == "q" + below + above + "y");
  CHECK(nfc("q" + mixed + "y") == nfd("q" + mixed + "y"));
}

TEST_CASE("words: a tokenizer of words restores the spaces of its texts") {
  const std::vector<std::string> french = {"les villages ?", "le pain ? oui", "50 % de « pain »"};
  const std::vector<std::string> english = {"the villages?", "bread? yes", "50% of \"bread\""};
  for (const auto* texts : {&french, &english}) {
    const Tokenizer t = Tokenizer::learn(*texts, {});
    for (const std::string& text : *texts) CHECK(t.decode(t.encode(text)) == text);
  }
  // A token that was seen with other spaces is not an unknown word.
  const Tokenizer t = Tokenizer::learn(english, {});
  CHECK(t.decode(t.encode("yes ?")) == "yes?");
  const std::vector<std::string> spaced = {"bread ? yes !"};
  const Tokenizer cut_before = Tokenizer::learn(spaced, {});
  CHECK(cut_before.decode(cut_before.encode("yes? bread!")) == "yes ? bread !");
  // A marked token that is too rare to keep counts as the token without its mark.
  const std::vector<std::string> once = {"a ?", "a ?", "b? a"};
  const Tokenizer kept = Tokenizer::learn(once, {.vocabulary = {.min_freq = 2}});
  CHECK(kept.decode(kept.encode("a ?")) == "a ?");
  const std::vector<std::string> both = {"a ? a", "a? a"};
  const Tokenizer merged = Tokenizer::learn(both, {.vocabulary = {.min_freq = 2}});
  CHECK(merged.decode(merged.encode("a ? a")) == "a? a");
}

}  // namespace tern::test_words
