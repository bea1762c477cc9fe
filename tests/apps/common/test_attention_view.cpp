// Attention drawn as SVG, as an HTML page and as text for a terminal: well-formed markup, colours
// by weight, labels of any bytes, limits of size.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <regex>
#include <set>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/html.h"
#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_attention_view {
using namespace tern::apps;

namespace {

using test::contains, test::count, test::kNan;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    out.push_back(text.substr(begin, end - begin));
  CHECK(begin == text.size());
  return out;
}

// What is wrong with the markup: tags that do not match, bare ampersands, invalid UTF-8.
std::string markup_fault(const std::string& text) {
  if (datasets::find_invalid_utf8(text)) return "invalid UTF-8";
  for (char c : text)
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') return "a control character";
  static const std::regex kEntity("&(?!(amp|lt|gt|quot|#39);)");
  if (std::regex_search(text, kEntity)) return "a bare ampersand";
  static const std::regex kTag("<(/?)([a-z0-9]+)((?: [A-Za-z-]+(?:=\"[^\"<>]*\")?)*)(/?)>");
  std::vector<std::string> open;
  size_t tags = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), kTag), end; it != end; ++it, ++tags) {
    const std::string name = (*it)[2];
    if ((*it)[4].length() > 0 || name == "img" || name == "br" || name == "input") continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> out of place";
    } else {
      open.pop_back();
    }
  }
  if (tags != count(text, "<") || tags != count(text, ">")) return "a bare < or >";
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

struct Cell {
  int x, y, red, green, blue;
  std::string title;
  double luminance() const { return .2126 * red + .7152 * green + .0722 * blue; }
};

// The cells with a tooltip.
std::vector<Cell> cells(const std::string& svg) {
  static const std::regex kCell(
      "<path d=\"M([0-9]+) ([0-9]+)h[^\"]*\" fill=\"#(..)(..)(..)\"><title>([^<]*)</title>");
  std::vector<Cell> out;
  for (std::sregex_iterator it(svg.begin(), svg.end(), kCell), end; it != end; ++it) {
    const auto hex = [&](int group) { return std::stoi((*it)[group], nullptr, 16); };
    out.push_back({std::stoi((*it)[1]), std::stoi((*it)[2]), hex(3), hex(4), hex(5), (*it)[6]});
  }
  return out;
}

std::string attention_svg(const AttentionMatrix& m) { return draw_attention(m, true).svg; }

// One row of weights.
AttentionMatrix strip(std::vector<float> weights) {
  AttentionMatrix m{"strip", {}, {"y"}, std::move(weights)};
  for (size_t i = 0; i < m.weights.size(); ++i) m.columns.push_back("x" + std::to_string(i));
  return m;
}

AttentionMatrix uniform(size_t rows, size_t columns, float weight, int64_t layer, int64_t head) {
  AttentionMatrix m{fmt::format("layer {}, head {}", layer, head), {}, {}, {}, layer, head};
  for (size_t c = 0; c < columns; ++c) m.columns.push_back(fmt::format("source{}", c));
  for (size_t r = 0; r < rows; ++r) m.rows.push_back(fmt::format("target{}", r));
  m.weights.assign(rows * columns, weight);
  return m;
}

AttentionMatrix any_script() {
  AttentionMatrix m{"שלום <title> \t \x1b[31m & מר",
                    {"東京タワーは高いですね、本当に高いです", "👩‍👩‍👧", "❤️",
                     "e\u0301te\u0301", "שלום", "\xff\xfe", "", "internationalisation"},
                    {"مرحبا", "a b\n", "\u202Eevil", "<&\"'>", "국어"},
                    {}};
  for (size_t i = 0; i < 40; ++i) m.weights.push_back(i == 7 ? kNan : static_cast<float>(i) / 39);
  return m;
}

std::string without_colours(const std::string& text) {
  static const std::regex kEscape("\x1b\\[[0-9;]*m");
  return std::regex_replace(text, kEscape, "");
}

}  // namespace

TEST_CASE("attention svg: one cell per weight, sources across, targets down") {
  const AttentionMatrix m{"cross", {"a", "b", "c"}, {"x", "y"}, {.1F, .2F, .7F, 0, .25F, .75F}};
  const std::string svg = attention_svg(m);
  CHECK(markup_fault(svg) == "");
  const auto found = cells(svg);
  REQUIRE(found.size() == 6);
  const char* titles[] = {"x ← a: 0.100", "x ← b: 0.200", "x ← c: 0.700",
                          "y ← a: 0.000", "y ← b: 0.250", "y ← c: 0.750"};
  for (size_t i = 0; i < 6; ++i) {
    CHECK(found[i].title == titles[i]);
    CHECK(found[i].x == found[i % 3].x);
    CHECK(found[i].y == found[i / 3 * 3].y);
  }
  CHECK(found[0].x < found[1].x);
  CHECK(found[1].x < found[2].x);
  CHECK(found[0].y < found[3].y);
}

TEST_CASE(
    "attention svg: a larger weight is darker; NaN is grey; weights outside [0, 1] are clamped") {
  std::vector<float> weights;
  for (int i = 0; i <= 100; ++i) weights.push_back(static_cast<float>(i) / 100);
  const auto found = cells(attention_svg(strip(weights)));
  REQUIRE(found.size() == 101);
  CHECK(found[0].luminance() == doctest::Approx(255));
  for (size_t i = 1; i < found.size(); ++i) CHECK(found[i].luminance() < found[i - 1].luminance());
  CHECK(found[100].luminance() < 64);
  CHECK(found[5].luminance() < 235);  // the share of one token in twenty is visible
  const auto odd = cells(attention_svg(strip({kNan, -1, 0, 1, 7, INFINITY})));
  CHECK(odd[0].red == odd[0].blue);
  CHECK(odd[0].red == odd[0].green);
  CHECK(odd[0].red < 200);
  CHECK(odd[1].luminance() == odd[2].luminance());
  CHECK(odd[4].luminance() == odd[3].luminance());
  CHECK(odd[5].luminance() == odd[3].luminance());
}

TEST_CASE("attention svg: a token may be any bytes; a long one is cut") {
  const std::string svg = attention_svg(any_script());
  CHECK(markup_fault(svg) == "");
  CHECK(cells(svg).size() == 40);
  CHECK(contains(svg, ">&lt;&amp;&quot;&#39;&gt;<"));
  CHECK(contains(svg, ">internationalisat…<"));  // 18 columns
  CHECK(contains(svg, ">東京タワーは高い…<"));   // 17: the next character is two columns wide
  CHECK(contains(svg, "← internationalisation: "));
  CHECK(contains(svg, ">a␣b␊<"));
  CHECK(!contains(svg, "\u202E"));
  CHECK(contains(svg, "<title>\u2068مرحبا\u2069 ← "));  // isolates: right-to-left text stays inside
}

TEST_CASE("attention svg: empty matrices, very large ones, wrong counts") {
  CHECK(contains(attention_svg({"nothing", {}, {}, {}}), "no weights"));
  CHECK(markup_fault(attention_svg({"", {"a"}, {}, {}})) == "");
  const std::string large = attention_svg(uniform(300, 300, 1, 1, 1));
  CHECK(count(large, "<image ") == 1);  // one image: cells with tooltips would take too much room
  CHECK(cells(large).empty());
  CHECK_THROWS_WITH_AS(attention_svg({"cross", {"a", "b"}, {"x"}, {1}}),
                       doctest::Contains("1 weights for 1 rows and 2 columns"), Error);
}

TEST_CASE("attention page: averages over heads, and a grid whose heads grow when clicked") {
  AttentionSentence s{"a <b> & c", "x \"y\"", "score <-1>", {{"Cross & more", {}}}};
  for (int64_t layer : {2, 1})
    for (int64_t head : {1, 2, 3})
      s.groups[0].matrices.push_back(
          uniform(4, 5, static_cast<float>(layer * head) / 10, layer, head));
  const std::string page = attention_page({s, s});
  CHECK(markup_fault(page) == "");
  CHECK(count(page, "<svg ") == 2 * (2 + 6) + 1);  // and the scale
  const auto averages = cells(page);
  REQUIRE(averages.size() == 2 * 2 * 20);
  for (size_t i = 0; i < 20; ++i) {  // layers in order
    CHECK(contains(averages[i].title, ": 0.200"));
    CHECK(contains(averages[20 + i].title, ": 0.400"));
  }
  CHECK(page.find("<th>layer 1") < page.find("<th>layer 2"));
  CHECK(count(page, "<th>head ") == 2 * 3);
  // Each head links to its own id, which is unique on the page.
  static const std::regex kLink(
      "class=\"zoom\" id=\"([^\"]*)\" href=\"#([^\"]*)\" title=\"([^\"]*)");
  std::set<std::string> ids;
  for (std::sregex_iterator it(page.begin(), page.end(), kLink), end; it != end; ++it) {
    CHECK((*it)[1] == (*it)[2]);
    ids.insert((*it)[1]);
  }
  CHECK(ids.size() == 2 * 6);
  CHECK(count(page, "title=\"layer 2, head 3\"") == 2);
  CHECK(count(page, "class=\"close\" href=\"#close\"") == 2 * 6);
  CHECK_FALSE(contains(page, "id=\"close\""));
  // The small picture shows 5 x 4 cells of 26 units at 12 pixels each, without names and title. A
  // click makes cells at most 3 times as large, so that few tokens do not fill a screen.
  CHECK(contains(page_style(), "--k: min(94vw / var(--w), 90vh / var(--h), 3px)"));
  CHECK(count(page, "width=\"60\" height=\"48\" viewBox=\"") == 2 * 6);
  CHECK(count(page, " 130 104\" style=\"--x:") == 2 * 6);
  CHECK(contains(page, "a &lt;b&gt; &amp; c"));
  CHECK(contains(page, "Cross &amp; more"));
  CHECK(contains(page, "score &lt;-1&gt;"));
}

TEST_CASE("attention page: alignments, sentences without weights, a head without weights") {
  const AttentionSentence alignment{"s", "t", "", {{"Alignment", {any_script()}}}};
  const std::string page = attention_page({alignment, alignment, {}});
  CHECK(markup_fault(page) == "");
  CHECK(cells(page).size() == 80);
  CHECK(!contains(page, "<table"));  // a single head needs no grid
  CHECK(count(page, "<details") == 3);
  CHECK(count(page, " open>") == 1);
  CHECK(markup_fault(attention_page({})) == "");
  const AttentionSentence empty{
      "s", "", "", {{"None", {}}, {"Cross", {uniform(0, 3, 0, 1, 1), uniform(0, 3, 0, 1, 2)}}}};
  CHECK(markup_fault(attention_page({empty})) == "");
  const AttentionSentence wrong{
      "s", "t", "", {{"Cross", {uniform(2, 3, 0, 1, 1), uniform(3, 2, 0, 1, 2)}}}};
  CHECK_THROWS_WITH_AS(attention_page({wrong}),
                       doctest::Contains("3 x 2 weights, but \"layer 1, head 1\""), Error);
}

TEST_CASE("attention page: 6 layers of 8 heads for 20 tokens stay below two megabytes") {
  AttentionSentence s{"source", "target", "", {}};
  for (const char* name : {"Encoder", "Decoder", "Cross attention"}) {
    AttentionGroup group{name, {}};
    for (int64_t i = 0; i < 24; ++i) {
      group.matrices.push_back(uniform(20, 20, 0, i / 8 + 1, i % 8 + 1));
      for (size_t k = 0; k < 400; ++k)  // weights without a pattern, which do not compress
        group.matrices.back().weights[k] =
            static_cast<float>((k * 7919 + static_cast<size_t>(i) * 104729) % 1009) / 1009;
    }
    s.groups.push_back(group);
  }
  CHECK(attention_page({s}).size() < 2'000'000);
}

TEST_CASE("attention text: weights are below their tokens") {
  const AttentionMatrix m{"cross", {"a", "bc", "d"}, {"x", "yy"}, {0, 1, 0, .1F, .3F, .6F}};
  CHECK(lines(attention_text(m, 60, false)) ==
        std::vector<std::string>{"cross", "      b", "    a c d", " x │  ██", "yy │░░▒▒▓▓",
                                 "weight to  [  ] .016  [░░] .14  [▒▒] .39  [▓▓] .77  [██] 1"});
  const AttentionMatrix tall{"t", {std::string(30, 'w')}, {"x"}, {1}};
  CHECK(lines(attention_text(tall, 60, false)).size() == 1 + 12 + 1 + 1);
}

TEST_CASE("attention text: no line exceeds the width, and no weight is missing") {
  for (const AttentionMatrix& m : {any_script(), uniform(7, 45, 1, 1, 1), strip({kNan, 1})})
    for (bool colour : {false, true})
      for (int width = 20; width <= 110; width += 5) {
        const std::string text = attention_text(m, width, colour);
        CHECK(!datasets::find_invalid_utf8(text));
        for (const std::string& line : lines(without_colours(text)))
          CHECK(datasets::display_width(line) <= width);
      }
  for (int width : {1, 20, 33, 80, 200}) {
    const std::string text = attention_text(uniform(7, 45, 1, 1, 1), width, false);
    CHECK(count(text, "█") == 2 * (7 * 45 + count(text, "weight ")));  // and one in the scale
  }
}

TEST_CASE("attention text: shades grow with the weight") {
  size_t before = 0;
  std::vector<std::string> seen;
  const std::string order = " ░▒▓█";
  for (int i = 0; i <= 100; ++i) {
    const auto row = lines(attention_text(strip({static_cast<float>(i) / 100, 1}), 20, false));
    const std::string shade(datasets::code_points(row[3])[3]);
    CHECK(order.find(shade) >= before);
    before = order.find(shade);
    if (seen.empty() || seen.back() != shade) seen.push_back(shade);
  }
  CHECK(seen.size() == 5);
  CHECK(contains(attention_text(strip({kNan, 1}), 20, false), "│??██"));
}

TEST_CASE("attention text: colours grow darker with the weight") {
  const auto luminance = [](const AttentionMatrix& m) {
    static const std::regex kBackground("│\x1b\\[48;5;([0-9]+)m");
    const std::string text = attention_text(m, 20, true);
    std::smatch match;
    REQUIRE(std::regex_search(text, match, kBackground));
    const int color = std::stoi(match[1]) - 16;  // 16 + 36 red + 6 green + blue, each 0 to 5
    const auto level = [](int c) { return c == 0 ? 0 : 55 + 40 * c; };
    return .2126 * level(color / 36) + .7152 * level(color / 6 % 6) + .0722 * level(color % 6);
  };
  double before = luminance(strip({0}));
  CHECK(before == doctest::Approx(255));
  int steps = 0;
  for (int i = 1; i <= 100; ++i) {
    const double now = luminance(strip({static_cast<float>(i) / 100}));
    CHECK(now <= before);
    steps += now < before;
    before = now;
  }
  CHECK(steps >= 6);
  CHECK(before < 32);
  CHECK(contains(attention_text(strip({kNan}), 20, true), "48;5;245m  "));
}

TEST_CASE("attention text: empty matrices and wrong counts") {
  CHECK(attention_text({"nothing", {"a"}, {}, {}}, 80, false) == "nothing\nno weights\n");
  CHECK_THROWS_AS(attention_text({"cross", {"a"}, {"x"}, {1, 2}}, 80, true), Error);
}

}  // namespace tern::test_attention_view
