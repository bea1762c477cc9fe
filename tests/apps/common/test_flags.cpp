#include <doctest/doctest.h>

#include "tern/apps/common/flags.h"
#include "tern/apps/common/program_text.h"
#include "tern/apps/common/suggest.h"

namespace tern::apps::test_flags {
namespace {

TEST_CASE("the nearest word is the one that was meant, or none") {
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

TEST_CASE("whole numbers are read as they are written, with an exponent too") {
  const CLI::Validator rule = number_rule({.low = -5, .high = 1e15}, true);
  auto read = [&](std::string text) {
    const std::string error = rule(text);
    return error.empty() ? text : "refused";
  };
  CHECK(read("1e3") == "1000");
  CHECK(read("1.5e3") == "1500");
  CHECK(read("1E15") == "1000000000000000");
  CHECK(read("999999999999999") == "999999999999999");
  CHECK(read("-5") == "-5");
  CHECK(read("0.0") == "0");
  for (const char* text :
       {"1.5", "1e-3", "1e16", "-6", "nan", "inf", "", "x", "1e", "1 000", "0x10"})
    CHECK(read(text) == "refused");
  std::string share = "0.25";
  CHECK(number_rule({.low = 0, .high = 1}, false)(share) == "");
  CHECK(share == "0.25");
}

TEST_CASE("the choices of a flag are read off what its value is called") {
  auto choices = [](const char* value) { return FlagText{.value = value}.choices(); };
  CHECK(choices("gpt|llama") == std::vector<std::string>{"gpt", "llama"});
  CHECK(choices("32|8") == std::vector<std::string>{"32", "8"});
  CHECK(choices("13a|char|none").size() == 3);
  for (const char* none : {"", "N", "FILE", "DIR|TAR.GZ", "FILE.html|.svg|.png", "a||b"})
    CHECK(choices(none).empty());
}

TEST_CASE("the manual page keeps what roff would take for itself") {
  ProgramText p;
  p.name = "prog";
  p.about = "Does it.\n.hidden 'quoted' back\\slash";
  p.flags = {{.names = {"--a-b"}, .value = "x|y", .by_default = "-1", .about = "'starts"}};
  const std::string page = man_page(p, "1");
  CHECK(page.find("prog \\- does it\n") != page.npos);
  CHECK(page.find("\n\\&.hidden 'quoted' back\\eslash\n") != page.npos);
  CHECK(page.find("\\fB\\-\\-a\\-b\\fR \\fIx|\\:y\\fR\n\\&'starts [\\-1]\n") != page.npos);
}

}  // namespace
}  // namespace tern::apps::test_flags
