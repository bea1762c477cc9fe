// The style of the sources as far as a test can check it: sizes of files and functions, columns, no
// macros, required headers, switches over enums, a comment at the top.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>

#include "tern/tests/project/source_text.h"

namespace tern::test::test_style {
namespace {

constexpr size_t kMaxFileLines = 600;  // about 400, more where a cut would split one idea
constexpr size_t kMaxFunctionLines = 60;
constexpr size_t kMaxColumns = 100;

/// Macros of other projects; tern must compile after them.
constexpr const char* kForeignMacros = "tests/accepted/foreign_macros.h";

/// Declared in fmt/core.h, defined in fmt/format.h. Without fmt/format.h a program may fail to
/// link, depending on what the compiler inlines.
const std::vector<std::string> kNeedFormat = {"fmt::join", "fmt::formatted_size"};

Findings long_functions(const std::vector<std::string>& lines) {
  Findings findings;
  for (const Function& f : functions_of(lines))
    if (f.lines > kMaxFunctionLines)
      findings.push_back(fmt::format("line {}: a function of {} lines", f.line, f.lines));
  return findings;
}

Findings missing_headers(const std::vector<std::string>& lines) {
  const std::string code = bare_code(lines);
  const bool has = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return after_directive(line, "include") == "<fmt/format.h>";
  });
  Findings findings;
  for (const std::string& name : kNeedFormat)
    if (!has && code.find(name) != std::string::npos)
      findings.push_back(fmt::format("{} needs <fmt/format.h>", name));
  return findings;
}

Findings style(const std::string& file, const std::vector<std::string>& lines) {
  Findings findings = missing_headers(lines);
  if (file.ends_with(".cpp") && (lines.empty() || !lines[0].starts_with("//")))
    findings.push_back("the first line must be a comment that says what the file holds");
  bool test = file.starts_with("tests/");
  if (!test && lines.size() > kMaxFileLines)
    findings.push_back(fmt::format("{} lines, at most {}", lines.size(), kMaxFileLines));
  for (size_t i = 0; i < lines.size(); ++i) {
    auto count = std::count_if(lines[i].begin(), lines[i].end(),
                               [](char c) { return (c & 0xC0) != 0x80; });  // code points
    if (static_cast<size_t>(count) > kMaxColumns)
      findings.push_back(fmt::format("line {}: {} columns", i + 1, count));
    std::string macro = after_directive(lines[i], "define");
    if (!macro.empty() && !macro.starts_with("DOCTEST_CONFIG_") && file != kForeignMacros)
      findings.push_back(fmt::format("line {}: the macro {}", i + 1, macro));
  }
  Findings functions = test ? Findings{} : long_functions(lines);
  findings.insert(findings.end(), functions.begin(), functions.end());
  return findings;
}

/// Switches over a scoped enum that have a default: a new value would silently take it.
Findings enum_defaults(const std::vector<std::string>& lines) {
  struct Switch {
    size_t indent;
    bool is_enum;
  };
  Findings findings;
  std::vector<Switch> open;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t indent = lines[i].find_first_not_of(' ');
    if (indent == std::string::npos) continue;
    const std::string line = lines[i].substr(indent);
    while (!open.empty() && indent <= open.back().indent) open.pop_back();
    if (line.starts_with("switch (")) open.push_back({indent, false});
    if (open.empty()) continue;
    if (line.starts_with("case ") && line.find("::") != std::string::npos)
      open.back().is_enum = true;
    if (line.starts_with("default:") && open.back().is_enum)
      findings.push_back(fmt::format("line {}: a default in a switch over an enum", i + 1));
  }
  return findings;
}

/// `before`, then statements until the function has `lines` lines, then `after`.
std::vector<std::string> around(const std::vector<std::string>& before, size_t lines,
                                const std::vector<std::string>& after) {
  std::vector<std::string> text = before;
  text.insert(text.end(), lines - 2, "  if (x) { f('{', \"{\", 1'000); }  // {");
  text.insert(text.end(), after.begin(), after.end());
  return text;
}

}  // namespace

TEST_CASE("repository: sizes of files and functions, columns, no macros, headers, first lines") {
  for (const std::string& file : source_files()) {
    Findings findings = style(file, read_lines(source_root() / file));
    CHECK_MESSAGE(findings.empty(), file, ":", joined(findings));
  }
}

TEST_CASE("repository: the style checks find what they look for") {
  CHECK(style("core/x.h", {"#define TERN_X 1"}).size() == 1);
  CHECK(style(kForeignMacros, {"#define slots"}).empty());
  CHECK(style("core/x.h", {std::string(101, '/')}).size() == 1);
  CHECK(style("core/x.h", std::vector<std::string>(601)).size() == 1);
  CHECK(style("core/x.h", {"fmt::join(x, y)"}).size() == 1);
  CHECK(style("core/x.h", {"// fmt::join(x, y)"}).empty());
  CHECK(style("core/x.h", {"#include <fmt/format.h>", "fmt::join(x, y)"}).empty());
  CHECK(style("core/x.cpp", {"// Sums.", "#include <vector>"}).empty());
  CHECK(style("tests/x.cpp", {"#include <vector>", "// Sums."}).size() == 1);
  CHECK(style("core/x.cpp", {}).size() == 1);
}

TEST_CASE("repository: switches over enums name every value") {
  for (const std::string& file : source_files()) {
    const Findings findings = enum_defaults(read_lines(source_root() / file));
    CHECK_MESSAGE(findings.empty(), file, ":", joined(findings));
  }
  const std::vector<std::string> with_default = {
      "  switch (t) {", "    case DType::f32:", "      return 4;",
      "    default:",   "      return 8;",      "  }"};
  CHECK(enum_defaults(with_default).size() == 1);
  CHECK(enum_defaults({"switch (c) {", "  case 'a':", "  default:", "}"}).empty());
}

TEST_CASE("repository: a function of 61 lines is found anywhere") {
  using Lines = std::vector<std::string>;
  const std::vector<std::pair<Lines, Lines>> places = {
      {{"void f() {"}, {"}"}},
      {{"namespace a {", "namespace {", "int g();", "void f() {"}, {"}", "}", "}"}},
      {{"struct S {", "  int x = 0;", " public:", "  int f() const {"}, {"  }", "};"}},
      {{"struct S {", "  enum class E : int { a };", "  S() : a_(1), b_{2} {"}, {"  }", "};"}},
      {{"template <class T = std::vector<int>>", "class [[nodiscard]] S : B<int> {",
        "  struct Inner {", "    auto f() -> int {"},
       {"    }", "  };", "};"}},
      {{"const auto f = [](int x) {"}, {"};"}},
      {{"const Table kTable = {", "    {1, {2}},", "    {3, [] {"}, {"    }},", "};"}},
      {{"auto r = R\"x({{{)x\";", "/* {", "{ */", "void f(Options o = {}) {"}, {"}"}},
      {{"DEFINE(x, y)", "", "namespace a {", "void f() {"}, {"}", "}"}},
      {{"struct stat;", "extern \"C\" {", "int f() noexcept {"}, {"}", "}"}},
  };
  for (const auto& place : places) {
    INFO(place.first.back());
    CHECK(long_functions(around(place.first, 61, place.second)).size() == 1);
    CHECK(long_functions(around(place.first, 60, place.second)).empty());
  }
  const Findings found =
      long_functions(around({"int x;", "", "template <class T>", "T f() {"}, 60, {"}"}));
  CHECK(found == Findings{"line 3: a function of 61 lines"});
  CHECK(long_functions(around({"const int kTable[] = {"}, 99, {"};"})).empty());
  CHECK(long_functions(around({"struct S {"}, 99, {"};"})).size() == 0);
}

}  // namespace tern::test::test_style
