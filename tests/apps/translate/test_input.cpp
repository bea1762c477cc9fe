// What translate run reads: lines from a pipe, line ends and encodings, long lines, unknown words;
// and that translations are single lines.
#include <doctest/doctest.h>
#include <unistd.h>

#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/translate/input.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/tests/apps/translate/open_text.h"
#include "tern/tests/support/odd_texts.h"

namespace tern::apps::translate::test_input {
namespace {

Translator a_translator(int64_t max_length) {
  TrainConfig c;
  c.first = 200;
  c.tokens = "bpe";
  c.bpe = 400;
  c.shared = true;
  c.lowercase = false;
  c.max_length = max_length;
  c.model = {.layers = 1, .dim = 8, .heads = 2, .ffn = 8};
  const PairFiles files = read_pair_files(c);
  Tokenizers tokenizers = learn_tokenizers(c, files.train);
  c.model.source_vocab = tokenizers.source.size();
  c.model.target_vocab = tokenizers.target.size();
  return {c, std::move(tokenizers), TranslationModel(c.model, 1)};
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += (i > 0 ? " " : "") + text;
  return out;
}

struct Pipe {
  int ends[2];
  Pipe() { check(::pipe(ends) == 0, "pipe failed"); }
  ~Pipe() {
    close();
    ::close(ends[0]);
  }
  void write(const std::string& text) const {
    check(::write(ends[1], text.data(), text.size()) == std::ssize(text), "write failed");
  }
  void close() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("translate: lines are returned as soon as no further line waits") {
  Pipe pipe;
  LineReader reader(pipe.ends[0]);
  pipe.write("one\ntwo\r\n\n\nfi");
  CHECK(reader.next(3) == Lines{"one", "two", ""});
  CHECK(reader.next(3) == Lines{""});  // an unfinished line is not returned
  pipe.write("ve\n");
  CHECK(reader.next(3) == Lines{"five"});
  pipe.write("six\nseven");
  CHECK(reader.next(3) == Lines{"six"});
  pipe.close();
  CHECK(reader.next(3) == Lines{"seven"});
  CHECK(reader.next(3) == Lines{});
  CHECK(reader.next(3) == Lines{});
  CHECK_THROWS_WITH_AS(LineReader(-1).next(1), doctest::Contains("cannot be read to its end"),
                       StreamError);
}

TEST_CASE("translate: standard input may have any line ends and encodings of files") {
  for (const test::OddText& t : test::odd_texts()) {
    CAPTURE(t.name);
    const test::OpenText file(t.bytes);
    LineReader reader(file.descriptor());
    Lines all;
    for (Lines lines; !(lines = reader.next(2)).empty();)
      all.insert(all.end(), lines.begin(), lines.end());
    CHECK(all == t.lines);
  }
  const test::OpenText pdf("%PDF-1.7\n");
  CHECK_THROWS_WITH_AS(LineReader(pdf.descriptor()).next(1),
                       doctest::Contains("standard input: is not text but a PDF file"), IoError);
  // A line that ends with CR is returned before the next one comes.
  Pipe pipe;
  LineReader reader(pipe.ends[0]);
  pipe.write("one\r");
  CHECK(reader.next(3) == Lines{"one"});
  pipe.write("\ntwo\r");
  CHECK(reader.next(3) == Lines{"two"});
}

TEST_CASE(
    "translate: the longest line is as long as in files; lines before a longer one are returned") {
  constexpr size_t kLongest = 1 << 20;
  const std::string longest(kLongest, 'a');
  const auto read = [&](const std::string& text, size_t most) {
    const test::OpenText file(text);
    LineReader reader(file.descriptor());
    Lines all;
    for (Lines lines; !(lines = reader.next(most)).empty();)
      all.insert(all.end(), lines.begin(), lines.end());
    return all;
  };
  for (const size_t most : {1, 2, 100}) {
    CHECK(read(longest + "\nb\n" + longest, most) == Lines{longest, "b", longest});
    CHECK_THROWS_WITH_AS(read("a\n" + longest + "\n" + longest + "b\nc", most),
                         "line 3 is longer than 1048576 bytes; is this text?", IoError);
    CHECK(read("\n", most) == Lines{""});
    CHECK(read("", most) == Lines{});
  }
}

TEST_CASE("translate: long lines are cut at the ends of sentences, and a message says so") {
  const Translator t = a_translator(40);
  std::vector<std::string> notes;
  InputLines input(t, [&](const std::string& note) { notes.push_back(note); });
  const std::string sentence = "The cat sleeps in the house.";
  CHECK(input.prepare(sentence, 1) == std::vector<std::string>{sentence});
  CHECK(input.prepare("", 2) == std::vector<std::string>{""});
  CHECK(notes.empty());
  CHECK(input.prepare(repeated(sentence, 50), 3) == std::vector<std::string>(50, sentence));
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("line 3 has ") == 0);
  CHECK(notes[0].find("its 50 sentences are translated one by one") != std::string::npos);
  // A single sentence stays whole, up to a limit.
  const std::string endless = repeated("the cat and", 100);
  CHECK(input.prepare(endless, 4) == std::vector<std::string>{endless});
  REQUIRE(notes.size() == 2);
  CHECK(notes[1].find("it cannot be cut into sentences") != std::string::npos);
  const std::vector<std::string> cut = input.prepare(repeated("the cat and", 1000), 5);
  REQUIRE(cut.size() == 1);
  CHECK(std::ssize(t.tokenizers.source.encode(cut[0])) == 1000);
  CHECK(notes.back().find("only the first 1000 are translated") != std::string::npos);
}

TEST_CASE("translate: a line has the translations of its sentences") {
  Translator t = a_translator(40);
  nn::set_training(t.model, false);
  InputLines input(t, [](const std::string&) {});
  const Search search(t.model, {});
  const std::string sentence = "The cat sleeps in the house.";
  const std::vector<std::string> lines = {sentence, "", repeated(sentence, 50)};
  std::vector<std::string> took;
  const auto take = [&](const std::string& s, const TranslatedText&) { took.push_back(s); };
  const Translations found = input.translate(search, lines, 1, 1, {}, take);
  REQUIRE(found.size() == 3);
  CHECK(took.size() == 52);
  CHECK_FALSE(found[0][0].tokens.empty());
  CHECK(found[1][0].tokens.empty());
  CHECK(found[2][0].tokens.size() == 50 * found[0][0].tokens.size());
  CHECK(input.translate(search, lines, 1, 1, [](int64_t) { return false; }).empty());
}

TEST_CASE("translate: words unknown from training are reported, for at most twenty lines") {
  const Translator t = a_translator(0);
  std::vector<std::string> notes;
  InputLines input(t, [&](const std::string& note) { notes.push_back(note); });
  for (int i = 1; i <= 30; ++i) input.prepare("Привет, мир", i);
  input.prepare("a \xFF b", 31);
  REQUIRE(notes.size() == 21);
  CHECK(notes[0] == "line 1: letters of a script (Cyrillic) that the training texts did not have");
  CHECK(notes[20] == "line 31 is not valid UTF-8; wrong bytes are read as U+FFFD");
  input.finish();
  CHECK(notes.back() == "10 more notes of these kinds");
}

TEST_CASE("translate: translations are single lines, whatever tokens the model chooses") {
  // An untrained model outputs arbitrary bytes; among 128 translations some have control
  // characters.
  const Translator t = a_translator(0);
  nn::set_training(t.model, false);
  std::vector<std::string> lines;
  for (const datasets::SentencePair& p : read_pair_files(t.config).train) lines.push_back(p.source);
  int64_t raw = 0;
  for (const auto& best :
       translate_lines(Search(t.model, {.beam = 4, .n_best = 4}), t.tokenizers, lines))
    for (const TranslatedText& text : best) {
      const std::string decoded = t.tokenizers.target.decode(text.tokens);
      raw += decoded != text.text;
      CHECK(text.text == datasets::one_line(decoded));
      CHECK(text.text.find_first_of("\n\r\t\x1b") == std::string::npos);
    }
  CHECK(raw > 0);
}

TEST_CASE("translate: the best translations of a line, combined from those of its sentences") {
  using List = std::vector<TranslatedText>;
  const std::vector<List> sentences = {
      {{"A.", {1}, -1, -1}, {"B.", {2}, -2, -4}},
      {{"c", {3}, -1, -1}, {"d", {4}, -3, -2}, {"", {}, -9, -9}},
  };
  const List best = join_translations(sentences, 3);
  REQUIRE(best.size() == 3);
  CHECK(best[0].text == "A. c");
  CHECK(best[0].score == -2);
  CHECK(best[0].log_prob == -2);
  CHECK(best[0].tokens == std::vector<int64_t>{1, 3});
  CHECK(best[1].text == "A. d");
  CHECK(best[2].text == "B. c");
  CHECK(join_translations(std::span(sentences).first(1), 5).size() == 2);
  const std::vector<List> wide = {{{"你。", {}, 0, 0}}, {{"好", {}, 0, 0}}};
  CHECK(join_translations(wide, 1)[0].text == "你。好");
}

}  // namespace tern::apps::translate::test_input
