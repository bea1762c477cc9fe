// Typed access to JSON: errors give the path and the value, members that no code has read are
// found, and odd texts are compared with what Python's json accepts.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"
#include "tern/tests/support/errors.h"

namespace tern::test_json_value {
namespace {

using Names = std::vector<std::string>;

// The text of the error that use(root of the JSON text) throws; "" if it throws none.
template <class Use>
std::string complaint(const std::string& text, Use use) {
  return test::error_of([&] {
    const JsonDocument file(text);
    use(file.root());
  });
}

}  // namespace

TEST_CASE("JSON values have the expected type, or the error gives path and value") {
  const JsonDocument file(R"({"a": {"b": [1, {"c": 2.5}]}, "t": "text", "yes": true, "n": null,
                              "list": [3, -1], "large": 18446744073709551615})");
  const JsonValue root = file.root();
  CHECK(root.at("t").text() == "text");
  CHECK(root.at("yes").boolean());
  CHECK(root.at("a").at("b").at(0).integer() == 1);
  CHECK(root.at("a").at("b").at(1).at("c").number() == 2.5);
  CHECK(root.at("list").integers() == std::vector<int64_t>{3, -1});
  CHECK(root.find("n").is_null());
  CHECK(root.find("none").is_null());
  CHECK(root.has("n"));
  CHECK_FALSE(root.has("none"));
  CHECK(root.get("n", int64_t{5}) == 5);
  CHECK(root.get("none", "else") == "else");
  CHECK(root.get("t", "else") == "text");

  const std::string text =
      R"({"a": {"b": [1, {"c": 2.5}]}, "t": "text", "large": 18446744073709551615})";
  auto said = [&](auto use) { return complaint(text, use); };
  using V = const JsonValue&;
  CHECK(said([](V v) { v.at("a").at("b").at(1).at("c").integer(); }) ==
        "a.b[1].c: 2.5 is not an integer below 2^63");
  CHECK(said([](V v) { v.at("a").at("b").at(1).at("c").text(); }) ==
        "a.b[1].c: expected a string, got 2.5");
  CHECK(said([](V v) { v.at("large").integer(); }) ==
        "large: 18446744073709551615 is not an integer below 2^63");
  CHECK(said([](V v) { v.at("t").boolean(); }) == "t: expected true or false, got \"text\"");
  CHECK(said([](V v) { v.at("t").number(); }) == "t: expected a number, got \"text\"");
  CHECK(said([](V v) { v.at("t").integers(); }) == "t: expected a list of integers, got \"text\"");
  CHECK(said([](V v) { v.at("t").at("x"); }) == "t: expected an object, got \"text\"");
  CHECK(said([](V v) { v.at("a").at("x"); }) == "a: it has no x");
  CHECK(said([](V v) { v.at("x"); }) == "it has no x");
  CHECK(said([](V v) { v.at("a").at("b").at(2); }) ==
        "a.b: expected a list of at least 3 elements, got [1,{\"c\":2.5}]");
  CHECK(said([](V v) { v.at("a").at("b").at(0).integer(2, 9); }) ==
        "a.b[0]: it is 1, it must be from 2 to 9");
  CHECK(said([](V v) { v.at("a").at("b").at(0).integer(2); }) ==
        "a.b[0]: it is 1, it must be at least 2");
  CHECK(said([](V v) { v.at("a").elements(); }) ==
        "a: expected a list, got {\"b\":[1,{\"c\":2.5}]}");
  CHECK(said([](V v) { v.at("a").at("b").members(); }) ==
        "a.b: expected an object, got [1,{\"c\":2.5}]");
  CHECK(complaint("{\"a\": \"" + std::string(100, 'x') + "\"}", [](V v) { v.at("a").number(); }) ==
        "a: expected a number, got \"" + std::string(39, 'x') + "...");
}

TEST_CASE("JSON documents list the members that no code has read") {
  const JsonDocument file(R"({"used": 1, "a": {"b": 1, "c": {"d": 1}}, "list": [{"e": 1, "f": 2}],
                              "words": {"x": 1, "y": 2}, "known": {"z": 1}, "odd": [{"g": 1}]})");
  const JsonValue root = file.root();
  CHECK(file.unread() == Names{"a", "known", "list", "odd", "used", "words"});
  root.at("used");
  root.at("a").at("b");
  for (const JsonValue& v : root.at("list").elements()) v.at("e");
  for (const JsonMember& m : root.at("words").members()) m.value.integer();
  root.ignore("known not there");
  CHECK(file.unread() == Names{"a.c", "list[0].f", "odd"});
  CHECK_THROWS_WITH_AS(file.refuse_unread(),
                       "it has a.c, list[0].f, odd, which tern does not know; it may change what "
                       "the file means",
                       Error);
  CHECK_THROWS_WITH_AS(file.refuse_unread_inside(),
                       doctest::Contains("it has a.c, list[0].f, which"), Error);
  root.at("a").ignore("c");
  root.at("list").at(0).at("f");
  CHECK(file.refuse_unread_inside() == Names{"odd"});
  CHECK_THROWS_AS(file.refuse_unread(), Error);
  CHECK_NOTHROW(file.refuse_unread({"odd"}));
  CHECK(JsonDocument("[1, 2]").unread().empty());
}

TEST_CASE("text that is not JSON is refused with line and column") {
  auto said = [](const std::string& text) { return complaint(text, [](const JsonValue&) {}); };
  CHECK(said("{\"a\": 1,\n \"b\": }") ==
        "not JSON at line 2, column 7: unexpected '}'; expected "
        "'[', '{', or a literal");
  CHECK(said("{\"a\": [1, 2") == "not JSON at line 1, column 12: the file ends too early");
  CHECK(said("") == "not JSON: it is empty");
  CHECK(said("\n \n") == "not JSON: it is empty");
  CHECK(said(std::string(9, '\0')) ==
        "not JSON: it holds only zero bytes, perhaps after a power failure");
  CHECK(said("{\"a\": 1e400}") == "not JSON: number overflow parsing '1e400'");
  CHECK(said("{\"a\": tru}") == "not JSON at line 1, column 10: invalid literal");
  CHECK(said("{} {}") == "not JSON at line 1, column 4: unexpected '{'; expected end of input");
}

namespace {

struct OddText {
  std::string text;
  bool python, tern;     // whether Python 3.11's json.loads() and tern read it
  const char* why = "";  // the reason why the two differ
};

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::vector<OddText> odd_texts() {
  using namespace std::string_literals;
  const char* const number = "JSON has no such number, and no setting can be it";
  const char* const utf8 = "JSON is UTF-8 (RFC 8259), which has no halves of characters";
  return {
      {"\xEF\xBB\xBF{\"a\": 1}", true, true},
      {"3", true, true},
      {"[-0]", true, true},
      {"[1e-400]", true, true},
      {"[123456789012345678901234567890]", true, true},  // only integer() refuses it
      {R"(["\u0000"])", true, true},
      {R"({"a": 1, "a": 2})", true, false, "one of the two values is not what was meant"},
      {R"({"b": {"a": 1, "\u0061": 1}})", true, false, "the same"},
      {"[NaN]", true, false, number},
      {"[-Infinity]", true, false, number},
      {"[1e400]", true, false, number},
      {R"(["\ud800"])", true, false, utf8},
      {"[\"\xED\xA0\x80\"]", true, false, utf8},
      {"\xFF\xFE[\0]\0"s, true, false, "JSON is UTF-8; Python reads UTF-16, too"},
      {nested(65), true, false, "no file is as deep, and trees are compared recursively"},
      {nested(64), true, true},
      {nested(100000), false, false},
      {"[\"\xFF\"]", false, false},
      {"[\"\xC0\xAF\"]", false, false},
      {"[\"x\ny\"]", false, false},
      {"[\"\t\"]", false, false},
      {R"({"a": 1,})", false, false},
      {"[1,]", false, false},
      {"{'a': 1}", false, false},
      {"{a: 1}", false, false},
      {"[1] // x", false, false},
      {"[/* x */ 1]", false, false},
      {"[01]", false, false},
      {"[+1]", false, false},
      {"[.5]", false, false},
      {"[1.]", false, false},
      {"[-]", false, false},
      {"[0x10]", false, false},
      {"[True]", false, false},
      {R"(["\x41"])", false, false},
      {"[1]\0"s, false, false},
      {"{} {}", false, false},
      {"\f{}", false, false},
      {"\xC2\xA0{}", false, false},
      {"", false, false},
  };
}

}  // namespace

TEST_CASE("odd JSON: read where Python's json reads it, or the table says why not") {
  for (const OddText& odd : odd_texts()) {
    CAPTURE(odd.text.substr(0, 60));
    const std::string said = complaint(odd.text, [](const JsonValue&) {});
    CAPTURE(said);
    CHECK(said.empty() == odd.tern);
    CHECK((odd.python == odd.tern) == std::string(odd.why).empty());
  }
}

TEST_CASE("JSON: the error names a member that occurs twice") {
  auto said = [](const std::string& text) { return complaint(text, [](const JsonValue&) {}); };
  CHECK(said(R"({"a": {"b": 1}, "c": [{"b": 1, "d": ":", "b": {}}]})") ==
        "an object has the member \"b\" twice");
  CHECK(said(R"({"a": {"b": {"c": 1}}, "a": 1})") == "an object has the member \"a\" twice");
  CHECK(said(R"({"a:b": {"c": "d:e\":"}, "b": [{"a": 1}, {"a": 1}]})").empty());
}

}  // namespace tern::test_json_value
