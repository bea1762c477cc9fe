// Documents: sentences and documents of texts and files, long lines, and errors.
#include <doctest/doctest.h>

#include "tern/core/base/error.h"
#include "tern/data/text/documents/documents.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_documents {
using namespace tern::datasets;

using Ids = std::vector<int64_t>;

TEST_CASE("documents: blank lines, ends of files, long lines, names of special pieces") {
  const WordPiece pieces({"[PAD]", "[UNK]", "[MASK]", "a", "b", "##c", "[", "]", "mask"});
  const std::vector<std::string> texts = {"\na b\r\n\u200b\nb [MASK]\n \t\r\n\na"};
  const Documents text = make_documents(texts, pieces);
  CHECK(text.tokens == std::vector<int32_t>{3, 4, 4, 6, 8, 7, 3});
  CHECK(text.sentence_ends == Ids{2, 6, 7});
  CHECK(text.document_ends == Ids{2, 3});
  CHECK(text.size() == 2);
  CHECK(text.sentence(1).size() == 4);
  CHECK(text.document_of(1).first == 0);
  CHECK(text.document_of(2).first == 2);
  CHECK(text.document_of(2).last == 3);
  CHECK_THROWS_AS(text.sentence(3), Error);
  CHECK_THROWS_AS(text.document_of(-1), Error);

  // Three tokens per sentence; words stay whole if they fit: "a b | ac a | accc|c".
  const std::vector<std::string> longer = {"a b ac a acccc"};
  const Documents cut = make_documents(longer, pieces, {.longest_sentence = 3});
  CHECK(cut.sentence_ends == Ids{2, 5, 8, 10});
  CHECK(cut.document_ends == Ids{4});
  CHECK_THROWS_AS(make_documents(longer, pieces, {.longest_sentence = -1}), Error);

  const std::vector<std::string> ends = {"a", "b\r", "", "\n", "a\nb\n"};
  const Documents several = make_documents(ends, pieces);
  CHECK(several.sentence_ends == Ids{1, 2, 3, 4});
  CHECK(several.document_ends == Ids{1, 2, 4});

  test::TempDir dir;
  test::write_file(dir / "a.txt", "a\nb\n");
  test::write_file(dir / "b.txt.gz", test::gzip("b\n\na\n"));
  test::write_file(dir / "blank.txt", "\n \n");
  const std::vector<std::string> paths = {dir / "a.txt", dir / "b.txt.gz"};
  const Documents files = read_documents(paths, pieces);
  CHECK(files.tokens == std::vector<int32_t>{3, 4, 4, 3});
  CHECK(files.document_ends == Ids{2, 3, 4});
  const std::vector<std::string> blank = {dir / "blank.txt"}, absent = {dir / "absent.txt"};
  CHECK_THROWS_WITH_AS(read_documents(blank, pieces), doctest::Contains("blank.txt"), IoError);
  CHECK_THROWS_AS(read_documents(absent, pieces), IoError);
  CHECK_THROWS_AS(read_documents({}, pieces), Error);
}

}  // namespace tern::test_documents
