// Parsing of flags: numbers, lists, choices, the nearest known word. The text of --help and of
// manual pages: groups, examples, line breaks.
#include <doctest/doctest.h>

#include "tern/apps/common/command_line/help.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/core/base/error.h"

namespace tern::apps::test_flags {
namespace {

TEST_CASE("the nearest word is the intended one, or none") {
  const std::vector<std::string> flags = {
      "--epochs", "--batch", "--label-smoothing", "--lr", "--seed", "--clip", "--model"};
  struct Row {
    const char *word, *meant;
  };
  for (const Row& row : {Row{"--epoch", "--epochs"},
                         {"--epcohs", "--epochs"},
                         {"-epochs", "--epochs"},
                         {"--Epochs", "--epochs"},
                         {"--batch-size", "--batch"},
                         {"--label_smoothing", "--label-smoothing"},
                         {"--label", "--label-smoothing"},
                         {"--modle", "--model"},
                         {"--sede", "--seed"},
                         {"--learning-rate", ""},
                         {"--xyzzy", ""},
                         {"--x", ""},
                         {"--", ""},
                         {"", ""}})
    CHECK(nearest_word(row.word, flags) == row.meant);
  CHECK(nearest_word(std::string(100'000, 'e'), flags) == "");
  CHECK(nearest_word("a", {}) == "");
  CHECK(did_you_mean("--epoch", flags) == "; did you mean --epochs?");
  CHECK(did_you_mean("--xyzzy", flags) == "");
}

template <class T>
std::string read(T& value, Setting& s, const std::vector<std::string>& words) {
  try {
    set_from_words(s, "--flag", words);
    return fmt::format("{}", value);
  } catch (const Error&) {
    return "refused";
  }
}

TEST_CASE("whole numbers are read exactly, also with an exponent") {
  int64_t value = 7;
  Settings list;
  Setting& s = list.number("flag", value, {.low = -5, .high = 1e15}, "");
  const auto number = [&](const char* text) { return read(value, s, {text}); };
  CHECK(number("1e3") == "1000");
  CHECK(number("1.5e3") == "1500");
  CHECK(number("1E15") == "1000000000000000");
  CHECK(number("999999999999999") == "999999999999999");
  CHECK(number("-5") == "-5");
  CHECK(number("0.0") == "0");
  for (const char* text :
       {"1.5", "1e-3", "1e16", "-6", "nan", "inf", "", "x", "1e", "1 000", "0x10", " 1", "1e999"})
    CHECK(number(text) == "refused");
  CHECK(value == 0);
  double share = 0;
  CHECK(read(share, list.number("share", share, kShare, ""), {"0.25"}) == "0.25");
  CHECK(read(share, *list.find("share"), {"1"}) == "refused");
  CHECK(read(share, *list.find("share"), {"-1e-9"}) == "refused");
}

TEST_CASE(
    "a repeated value in a list is refused, except in pairs and in flags with one value per item") {
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
  Settings list;
  Setting& lengths = list.numbers("lengths", numbers, kCount, "N,...", "");
  Setting& heads = list.numbers("heads", numbers, kCount, "N[,N]", "");
  Setting& files = list.texts("files", texts, "FILE...", "");
  Setting& words = list.list("words", texts, {"a", "b"}, "WORD,...", "");
  Setting& prompts = list.texts("prompts", texts, "TEXT", "").one_each();
  const auto size = [](const auto& values, const std::string& told) {
    return told == "refused" ? -1 : std::ssize(values);
  };
  const auto count = [&](Setting& s, const std::vector<std::string>& given) {
    std::string told = "taken";
    try {
      set_from_words(s, "--flag", given);
    } catch (const Error& e) {
      told = "refused";
    }
    return &s == &lengths || &s == &heads ? size(numbers, told) : size(texts, told);
  };
  CHECK(count(lengths, {"1,2", "3"}) == 3);
  CHECK(count(lengths, {"1,2", "1"}) == -1);
  CHECK(count(lengths, {"10,1e1"}) == -1);
  CHECK(count(heads, {"4,4"}) == 2);
  CHECK(count(files, {"a,b", "c"}) == 2);  // a comma may be part of a name
  CHECK(count(files, {"a", "a"}) == -1);
  CHECK(count(words, {"a,b"}) == 2);
  CHECK(count(words, {"a,b,a"}) == -1);
  CHECK(count(words, {"a,c"}) == -1);
  CHECK(count(prompts, {"a", "a"}) == 2);
}

TEST_CASE("the choices of a flag are its words, or the numbers that its type lists") {
  std::string text;
  int64_t number = 0;
  Settings list;
  using Words = std::vector<std::string>;
  CHECK(list.word("a", text, {"gpt", "llama"}, "").choices() == Words{"gpt", "llama"});
  Setting& bits = list.number("b", number, {}, "");
  CHECK(bits.choices().empty());
  bits.type = "32|8";
  CHECK(bits.choices() == Words{"32", "8"});
  for (const char* none : {"FILE", "DIR|TAR.GZ", "FILE.html|.svg|.png"})
    CHECK(list.text("c", text, none, "").choices().empty());
}

TEST_CASE("a file whose type lists several endings has one of them") {
  std::string path;
  Settings list;
  Setting& page = list.text("page", path, "FILE.html|.svg", "");
  CHECK(read(path, page, {"a.html"}) == "a.html");
  CHECK(read(path, page, {"b/a.svg"}) == "b/a.svg");
  for (const char* other : {"a.htm", "html", "a.svg.gz", "a"})
    CHECK(read(path, page, {other}) == "refused");
  CHECK(path == "b/a.svg");
  CHECK(read(path, list.text("one", path, "FILE.onnx", ""), {"model"}) == "model");
  CHECK(read(path, list.text("any", path, "FILE|DIR", ""), {"model"}) == "model");
}

/// A program with one command and flags of every kind.
struct Toy {
  bool tie = true;
  double rate = 0.5;
  std::string name = "-1";
  Program program{"prog", "Does it.\n.hidden 'quoted' back\\slash", {}, "Ends so."};
  Toy() {
    program.commands = {{.settings =
                             [this](Settings& s) {
                               s.toggle("tie", tie, "knots").flag("--tie,!--no-tie");
                               s.group(Group::optimizer);
                               s.number("rate", rate, {}, "of steps");
                               s.group(Group::data);
                               s.text("a_b", name, "x|y", "'starts");
                             },
                         .examples = "--rate 2\n--no-tie"}};
  }
};

TEST_CASE("the manual page escapes what roff would interpret") {
  const Toy toy;
  const std::string page = man_page(toy.program, "1");
  CHECK(page.find("prog \\- does it\n") != page.npos);
  CHECK(page.find("\n\\&.hidden 'quoted' back\\eslash\n") != page.npos);
  CHECK(page.find("\\fB\\-\\-a\\-b\\fR \\fIx|\\:y\\fR\n\\&'starts (default \\-1)\n") != page.npos);
}

TEST_CASE("--help and the manual page have the same groups of flags, and examples at the end") {
  const Toy toy;
  const Program& program = toy.program;
  const std::string help = help_text(program, nullptr, 60), page = man_page(program, "1");
  CHECK(help.starts_with("Usage: prog [FLAGS]\n\nDoes it.\n\n.hidden "));
  size_t at = 0, line = 0;
  for (const char* name : {"Options", "Data", "Optimizer", "Help"}) {
    CAPTURE(name);
    const size_t next = help.find(std::string(name) + ":\n  -", at);
    const size_t next_line = page.find(fmt::format(".PP\n\\fI{}\\fR\n.TP\n", name), line);
    REQUIRE(next != help.npos);
    REQUIRE(next_line != page.npos);
    at = next;
    line = next_line;
  }
  CHECK(help.find("\n  --tie, --no-tie         knots (default --tie)\n") != help.npos);
  CHECK(help.ends_with("\nExamples:\n  prog --rate 2\n  prog --no-tie\n\nEnds so.\n"));
  CHECK(page.find("prog \\-\\-rate 2\n", line) != page.npos);
}

TEST_CASE("lines are broken between words; a word longer than a line stays whole") {
  CHECK(wrapped("one two three", 7) == "one two\nthree\n");
  CHECK(wrapped("  one two three", 9, 4) == "  one two\n      three\n");
  CHECK(wrapped("a verylongword b", 6) == "a\nverylongword\nb\n");
  CHECK(wrapped("äöü äöü", 7) == "äöü äöü\n");
  CHECK(wrapped("", 7) == "\n");
}

}  // namespace
}  // namespace tern::apps::test_flags
