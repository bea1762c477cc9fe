// docs/pytorch.md lists tern's names for those of PyTorch: all code in its tables must be compiled.
#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <iterator>

#include "tern/tests/project/source_text.h"

namespace fs = std::filesystem;

namespace tern::test::test_guide {
namespace {

std::string without_spaces(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) out += c;
  return out;
}

/// The code between backquotes in the middle column of the tables.
std::vector<std::string> middle_code(const std::vector<std::string>& lines) {
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    if (!line.starts_with("| ")) continue;
    const size_t left = line.find(" | "), right = line.find(" | ", left + 1);
    const std::string cell = line.substr(left, right - left);
    for (size_t at = cell.find('`'); at != std::string::npos;) {
      const size_t end = cell.find('`', at + 1);
      if (end == std::string::npos) break;
      out.push_back(cell.substr(at + 1, end - at - 1));
      at = cell.find('`', end + 1);
    }
  }
  return out;
}

/// The pieces that do not occur in the text, apart from spaces.
Findings not_in(const std::string& text, const std::vector<std::string>& pieces) {
  const std::string joined_text = without_spaces(text);
  Findings findings;
  for (const std::string& piece : pieces)
    if (joined_text.find(without_spaces(piece)) == std::string::npos) findings.push_back(piece);
  return findings;
}

}  // namespace

TEST_CASE("guide: the code in docs/pytorch.md for PyTorch's names is compiled") {
  std::string programs;
  for (const auto& entry : fs::directory_iterator(source_root() / "tests/readme")) {
    std::ifstream in(entry.path());
    programs.append(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  const std::vector<std::string> code = middle_code(read_lines(source_root() / "docs/pytorch.md"));
  CHECK(code.size() > 100);
  const Findings findings = not_in(programs, code);
  CHECK_MESSAGE(findings.empty(), joined(findings));
}

TEST_CASE("guide: the check finds what it looks for") {
  const std::vector<std::string> code =
      middle_code({"| PyTorch | tern | note |", "|---|---|---|",
                   "| `x.relu()` | `relu(x)`, or `f(x)` | `g` |"});
  CHECK(code == std::vector<std::string>{"relu(x)", "f(x)"});
  CHECK(not_in("y = relu( x );\n", code) == Findings{"f(x)"});
}

}  // namespace tern::test::test_guide
