// Texts of other systems (line ends, byte order marks, UTF-16) in everything that reads text.
#include <doctest/doctest.h>

#include "tern/data/loading/csv.h"
#include "tern/data/loading/text_decoder.h"
#include "tern/data/text/documents/documents.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/lines/text_reader.h"
#include "tern/data/text/pairs/pairs.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/odd_texts.h"

namespace tern::test::test_odd_texts {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  datasets::for_each_line(text, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

// Decodes pieces of `piece` bytes, as they may come from a pipe.
Lines decoded_lines(const std::string& bytes, size_t piece) {
  datasets::TextDecoder decoder("x");
  datasets::LineCutter cutter;
  Lines lines;
  const auto visit = [&](std::string_view line) { lines.emplace_back(line); };
  for (size_t at = 0; at < bytes.size(); at += piece) {
    std::string text;
    decoder.add(std::string_view(bytes).substr(at, piece), text);
    cutter.add(text, visit);
  }
  std::string rest;
  decoder.finish(rest);
  cutter.add(rest, visit);
  cutter.finish(visit);
  return lines;
}

}  // namespace

TEST_CASE("odd texts: lines equal Python's, from files, gzip, strings and pipes") {
  TempDir dir;
  for (const OddText& t : odd_texts()) {
    CAPTURE(t.name);
    CHECK(datasets::read_lines(write_file(dir / "a", t.bytes)) == t.lines);
    CHECK(datasets::read_lines(write_file(dir / "a.gz", gzip(t.bytes))) == t.lines);
    CHECK(lines_of(datasets::read_text(dir / "a")) == t.lines);
    for (size_t piece : {1, 2, 3, 5, 100}) CHECK(decoded_lines(t.bytes, piece) == t.lines);
  }
}

TEST_CASE("odd texts: line ends are found where pieces of a file meet") {
  TempDir dir;
  // The reader's pieces are 64 KiB and 1 MiB. Line ends stand at every position near 64 KiB.
  for (const char* end : {"\r", "\r\n", "\n"})
    for (size_t first = (64 << 10) - 3; first < (64 << 10) + 2; ++first) {
      const std::string a(first, 'a'), b((64 << 10) - 1, 'b');
      const Lines lines = datasets::read_lines(write_file(dir / "x", a + end + b + end + "c"));
      CHECK((lines == Lines{a, b, "c"}));
    }
  std::u16string wide(70'000, u'\u4e2d');
  wide += u"\rx\r\n";
  const Lines lines = datasets::read_lines(write_file(dir / "x", utf16(wide, false)));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].size() == 3 * 70'000);
  CHECK(lines[1] == "x");
  // The work is linear: a LF does not start a search for a CR through the whole text.
  std::string many(3 << 20, '\n');
  CHECK(lines_of(many).size() == 3 << 20);
  CHECK(lines_of(std::string(3 << 20, '\r')).size() == 3 << 20);
}

TEST_CASE("odd texts: pieces and positions of a UTF-16 text are those of its UTF-8") {
  TempDir dir;
  std::u16string wide;
  std::string narrow;
  for (int i = 0; i < 300'000; ++i) wide += u"a\u00e9\u4e2d\n", narrow += "a\u00e9\u4e2d\n";
  for (const bool big : {false, true}) {
    const std::string path = write_file(dir / "x", utf16(wide, big));
    CHECK(datasets::read_text(path) == narrow);
    for (const int64_t skipped : {0, 1, 2, 7, 70'001, 1'100'000}) {
      datasets::TextReader reader(path);
      reader.skip(skipped);
      std::string rest;
      const int64_t position = reader.position();
      while (reader.read(rest)) {
      }
      CHECK(rest == narrow.substr(static_cast<size_t>(position)));
      CHECK(reader.position() == std::ssize(narrow));
    }
    datasets::TextReader reader(path);
    CHECK_THROWS_AS(reader.skip(std::ssize(narrow) + 1), IoError);
  }
}

TEST_CASE("odd texts: the error of a file that is not text names its format, not an encoding") {
  TempDir dir;
  for (const NoText& t : no_texts()) {
    CAPTURE(t.said);
    const std::string path = write_file(dir / "x", t.bytes);
    for (const std::string& error : {io_error([&] { datasets::read_lines(path); }),
                                     io_error([&] { datasets::read_text(path); })}) {
      CAPTURE(error);
      CHECK(error.starts_with(path + ": "));
      CHECK(contains(error, t.said));
    }
    if (!contains(t.said, "UTF-8"))
      CHECK(contains(io_error([&] { datasets::load_csv(path); }), t.said));
  }
  // Texts that begin like files of other formats.
  for (const char* text : {"BM is a word", "GGUF holds weights", "Rar! he cried", "8BPS and GIF8",
                           "RIFF raff", "SQLite format 30", "7z", "BZh9", "{\"a\": 1}"})
    CHECK(datasets::read_lines(write_file(dir / "t", text)) == Lines{text});
  CHECK(io_error([&] { datasets::read_lines(write_file(dir / "m", "\xFF\xFE")); }) ==
        dir / "m: the file is empty");
}

TEST_CASE("odd texts: pairs and documents cut lines as read_lines does") {
  TempDir dir;
  const datasets::Pairs pairs =
      datasets::read_pairs_tsv(write_file(dir / "p", "Go.\tVa !\rRun!\tCours !\rHi.\tSalut."));
  CHECK(pairs.pairs == std::vector<datasets::SentencePair>{
                           {"Go.", "Va !"}, {"Run!", "Cours !"}, {"Hi.", "Salut."}});
  const Lines text = {"one two\rthree\r\rfour"};
  const datasets::WordPiece pieces = datasets::WordPiece::learn(text, {.size = 60});
  const datasets::Documents documents = datasets::make_documents(text, pieces);
  CHECK(documents.sentences() == 3);
  CHECK(documents.document_ends == std::vector<int64_t>{2, 3});
  // A CR inside a line breaks the alignment, and the error says so.
  write_file(dir / "a", "a\rb\nc\n");
  write_file(dir / "b", "x\ny\n");
  CHECK(contains(io_error([&] { datasets::read_aligned(dir / "a", dir / "b"); }),
                 "a has 3 lines (1 of them ended by a CR without a LF), "));
}

}  // namespace tern::test::test_odd_texts
