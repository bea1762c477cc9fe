// Lines, texts and sentence pairs from files: line ends, errors, and reports of skipped pairs.
#include <doctest/doctest.h>

#include "tern/core/base/error.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/pairs/pairs.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_pairs {
using namespace tern::datasets;
using test::TempDir, test::io_error;
using test::write_file;

namespace {

/// The text of the IoError that `read` throws.
}  // namespace

TEST_CASE("lines: ends, byte order mark, gzip") {
  TempDir dir;
  CHECK(read_lines(write_file(dir / "a", "\xEF\xBB\xBFone\r\n\ntwo\n\xEF\xBB\xBFthree")) ==
        std::vector<std::string>{"one", "", "two", "\xEF\xBB\xBFthree"});
  CHECK(read_lines(write_file(dir / "b", "\n")) == std::vector<std::string>{""});
  std::string many;
  for (int i = 0; i < 30000; ++i) many += "line " + std::to_string(i) + "\n";
  const auto lines = read_lines(write_file(dir / "c.gz", test::gzip(many)));
  REQUIRE(lines.size() == 30000);
  CHECK(lines[29999] == "line 29999");
}

TEST_CASE("lines: read_text keeps line ends; long and invalid texts are errors") {
  TempDir dir;
  const std::string text = "one\r\n\ntwo\t\u00e9";
  CHECK(read_text(write_file(dir / "a", "\xEF\xBB\xBF" + text)) == text);
  CHECK(read_text(write_file(dir / "a.gz", test::gzip(text))) == text);
  CHECK(io_error([&] { read_text(write_file(dir / "e", "")); }) == dir / "e: the file is empty");
  CHECK(io_error([&] { read_text(write_file(dir / "e", "\xEF\xBB\xBF")); }) ==
        dir / "e: the file is empty");
  CHECK(io_error([&] { read_text(write_file(dir / "b", "abc\xFF")); }).find("b: byte 4 is not") !=
        std::string::npos);
  CHECK(io_error([&] { read_text(dir / "a", {.max_bytes = 5}); }) != "");
  CHECK(io_error([&] { read_text(dir / "none"); }) != "");
}

TEST_CASE("lines: empty files, invalid UTF-8 and long lines are clear errors") {
  TempDir dir;
  CHECK(io_error([&] { read_lines(write_file(dir / "e", "")); }) == dir / "e: the file is empty");
  CHECK(io_error([&] { read_lines(write_file(dir / "e.gz", test::gzip(""))); }) ==
        dir / "e.gz: the file is empty");
  CHECK(io_error([&] {
          read_lines(write_file(dir / "l", "ok\nno \xE9t\xE9\n"));
        }).starts_with(dir / "l: line 2 is not valid UTF-8 (byte 4 of the line)"));
  CHECK(io_error([&] {
          read_lines(write_file(dir / "b", std::string(3 << 20, 'x')));
        }).starts_with(dir / "b: line 1 is longer than 1048576 bytes"));
  CHECK(io_error([&] { read_lines(dir / "missing"); }).find("missing") != std::string::npos);
  std::string cut = test::gzip("some text\n");
  cut.resize(cut.size() - 3);
  CHECK_THROWS_AS(read_lines(write_file(dir / "cut.gz", cut)), IoError);
}

TEST_CASE("pairs: read_pairs_tsv does not use further columns, and the report says so") {
  TempDir dir;
  const std::string path = write_file(
      dir / "p", "Go.\tVa !\tCC-BY\tmore\nRun!\tCours\xE2\x80\xAF!\r\n\n \tx\nHi.\tSalut.");
  const Pairs all = read_pairs_tsv(path);
  CHECK(all.pairs ==
        std::vector<SentencePair>{{"Go.", "Va !"}, {"Run!", "Cours\u202F!"}, {"Hi.", "Salut."}});
  CHECK(all.report ==
        PairReport{
            .lines = 5, .kept = 3, .empty = 2, .first_empty = 3, .first_wide = 1, .columns = 4});
  CHECK(all.report.summary() ==
        "3 of 5 pairs; left out: 2 with an empty side (the first in line 3); only the first two "
        "columns are used: line 1 has 4");

  const Pairs two = read_pairs_tsv(path, {.reverse = true, .first = 2});
  CHECK(two.pairs == std::vector<SentencePair>{{"Va !", "Go."}, {"Cours\u202F!", "Run!"}});
  CHECK(two.report.leaves_out());
  const Pairs plain = read_pairs_tsv(write_file(dir / "two", "Run!\tCours !\nHi.\tSalut.\n"));
  CHECK(plain.report.summary() == "2 of 2 pairs");
  CHECK_FALSE(plain.report.leaves_out());

  CHECK(io_error([&] {
          read_pairs_tsv(write_file(dir / "q", "a\tb\nno tab\n"));
        }).starts_with(dir / "q: line 2 has no TAB"));
  CHECK_THROWS_AS(read_pairs_tsv(path, {.first = -1}), Error);
}

TEST_CASE("pairs: read_pairs counts the pairs that it skips") {
  TempDir dir;
  const auto de = write_file(dir / "de", "ein Haus\n\nein sehr langer Satz\nzwei\n");
  const auto en = write_file(dir / "en.gz", test::gzip("a house\nx\na long one\ntwo\n"));
  const Pairs pairs = read_pairs(de, en, {.max_words = 3});
  CHECK(pairs.pairs == std::vector<SentencePair>{{"ein Haus", "a house"}, {"zwei", "two"}});
  CHECK(pairs.report.lines == 4);
  CHECK(
      pairs.report.summary() ==
      "2 of 4 pairs; left out: 1 with an empty side (the first in line 2), 1 of more than 3 words "
      "(the first in line 3)");
  CHECK(read_pairs(de, en, {.reverse = true, .first = 1}).pairs[0].source == "a house");

  const auto shorter = write_file(dir / "short", "one\n");
  for (int64_t first : {0, 1})
    CHECK(io_error([&] { read_pairs(de, shorter, {.first = first}); }) ==
          "the files are not aligned line by line: " + de + " has 4 lines, " + shorter + " has 1");
}

}  // namespace tern::test_pairs
