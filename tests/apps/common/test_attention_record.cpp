// Attention weights collected as matrices by layer and head, and written as HTML, SVG or PNG.
#include <doctest/doctest.h>

#include "tern/apps/common/pages/attention.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_attention_record {
using namespace tern::apps;

namespace {

using Words = std::vector<std::string>;

// Two layers with two heads each, over two target and three source tokens, and an alignment.
AttentionSentence recorded() {
  AttentionSentence s{"a b c", "x y", "", {}};
  const Words rows{"x", "y"}, columns{"a", "b", "c"};
  Tensor heads = tensor({1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0.5, 0.5}, {2, 2, 3});
  record_attention(s, "Cross", 1, heads, rows, columns);
  record_attention(s, "Cross", 2, transpose(transpose(heads, 1, 2).contiguous(), 1, 2), rows,
                   columns);
  record_attention(s, "Alignment", 1, select(heads, 0, 1), rows, columns);
  return s;
}

}  // namespace

TEST_CASE("attention record: heads have their layer and number, for tensors of any layout") {
  const AttentionSentence s = recorded();
  REQUIRE(s.groups.size() == 2);
  REQUIRE(s.groups[0].matrices.size() == 4);
  const AttentionMatrix& m = s.groups[0].matrices[3];
  CHECK(m.title == "Cross, layer 2, head 2");
  CHECK((m.layer == 2 && m.head == 2));
  CHECK(m.weights == std::vector<float>{0, 0, 1, 0, 0.5, 0.5});
  CHECK(s.groups[1].matrices[0].weights == m.weights);
  AttentionSentence other;
  CHECK_THROWS_WITH_AS(record_attention(other, "", 1, zeros({2, 3}), {"x"}, {"a", "b", "c"}),
                       doctest::Contains("for 1 rows and 3 columns, got (2, 3)"), Error);
}

TEST_CASE("attention record: the mean of a layer, and its title") {
  const AttentionSentence s = recorded();
  const std::vector<AttentionMatrix> means = layer_means(s.groups[0]);
  REQUIRE(means.size() == 2);
  CHECK(means[1].title == "Cross, layer 2, mean of its heads");
  CHECK(means[1].weights == std::vector<float>{0.5, 0, 0.5, 0, 0.75, 0.25});
  REQUIRE(layer_means(s.groups[1]).size() == 1);
  CHECK(layer_means(s.groups[1])[0].title == "Alignment");
  const std::string text = attention_means_text(s, {s.groups[1]}, 80, false);
  CHECK(text.starts_with("a b c\nx y\n\nAlignment"));
  CHECK(text.find("Cross") == text.npos);
}

TEST_CASE("attention record: a page, a drawing or a picture, by the ending of the path") {
  test::TempDir dir;
  const AttentionSentence s = recorded();
  write_attention(dir / "a.html", "Title", {s, s});
  CHECK(test::read_file(dir / "a.html").find("<h1>Title</h1>") != std::string::npos);
  write_attention(dir / "a.svg", "Title", {s});
  const std::string svg = test::read_file(dir / "a.svg");
  CHECK(svg.starts_with("<svg xmlns"));
  CHECK(svg.find("colour scale") != svg.npos);
  for (const char* title : {"Cross, layer 1, mean", "Cross, layer 2, mean", ">Alignment<"})
    CHECK(svg.find(title) != svg.npos);
  write_attention(dir / "a.png", "Title", {s});
  // The size of the file: three pictures of 2 x 3 weights, 12 pixels per weight, 16 between
  // pictures.
  const std::string png = test::read_file(dir / "a.png");
  CHECK(png.substr(16, 8) == std::string("\0\0\0\x24\0\0\0\x68", 8));
  CHECK_THROWS_WITH_AS(write_attention(dir / "a.pdf", "", {s}), doctest::Contains("a.pdf"), Error);
  CHECK_THROWS_WITH_AS(check_attention_file("a.pdf"), doctest::Contains("a.pdf"), Error);
  CHECK_THROWS_WITH_AS(check_attention_file(dir / "none/a.svg"),
                       doctest::Contains("there is no folder"), IoError);
  CHECK_NOTHROW(check_attention_file(dir / "a.svg"));
  CHECK_NOTHROW(check_attention_file("a.svg"));
  CHECK_NOTHROW(check_attention_file(""));
  CHECK_NOTHROW(write_attention(dir / "none.svg", "", {}));
  CHECK_NOTHROW(write_attention(dir / "none.png", "", {}));
}

}  // namespace tern::test_attention_record
