// README.md, docs/*.md and the other documents: the code that they show is compiled, and their
// links hold.
//
// The rule for code: every block marked cpp or cmake occurs, line by line, in a file that is
// compiled (in tests/readme, tests/consumer or elsewhere). Only the indentation of the whole may
// differ.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <regex>

#include "tern/tests/project/source_text.h"

namespace fs = std::filesystem;

namespace tern::test::test_documents {
namespace {

using Lines = std::vector<std::string>;

/// The documents, as paths from the root.
std::vector<std::string> documents() {
  std::vector<std::string> files;
  for (const char* folder : {"", "docs", "packaging"})
    for (const auto& entry : fs::directory_iterator(source_root() / folder))
      if (entry.path().extension() == ".md")
        files.push_back(fs::relative(entry.path(), source_root()).generic_string());
  std::sort(files.begin(), files.end());
  return files;
}

// ---- Blocks of code ----------------------------------------------------------------------------

struct Block {
  size_t line;  ///< its first line, from 1
  std::string language;
  Lines lines;
};

size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

bool is_fence(const std::string& line) { return line.substr(indent_of(line)).starts_with("```"); }

std::vector<Block> blocks_of(const Lines& lines) {
  std::vector<Block> blocks;
  bool open = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_fence(lines[i])) {
      if (!open) blocks.push_back({i + 2, lines[i].substr(indent_of(lines[i]) + 3), {}});
      open = !open;
    } else if (open) {
      blocks.back().lines.push_back(lines[i]);
    }
  }
  return blocks;
}

/// Whether `file` contains `block`, with the same shift of indentation in all lines.
bool stands_in(const Lines& block, const Lines& file) {
  auto shifted = [](const std::string& a, const std::string& b, ptrdiff_t shift) {
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    const size_t in_a = indent_of(a), in_b = indent_of(b);
    return static_cast<ptrdiff_t>(in_b) - static_cast<ptrdiff_t>(in_a) == shift &&
           a.compare(in_a, a.npos, b, in_b) == 0;
  };
  for (size_t at = 0; at + block.size() <= file.size(); ++at) {
    const auto shift = static_cast<ptrdiff_t>(indent_of(file[at])) -
                       static_cast<ptrdiff_t>(indent_of(block.front()));
    if (std::equal(block.begin(), block.end(), file.begin() + static_cast<ptrdiff_t>(at),
                   [&](const auto& a, const auto& b) { return shifted(a, b, shift); }))
      return true;
  }
  return false;
}

/// The compiled files by name: C++ outside tests/refused, or the CMakeLists.txt files of tests.
std::map<std::string, Lines> compiled_files(bool cmake) {
  std::vector<std::string> names;
  if (!cmake) names = source_files();
  std::erase_if(names, [](const std::string& file) { return file.starts_with("tests/refused/"); });
  if (cmake)
    for (const auto& entry : fs::recursive_directory_iterator(source_root() / "tests"))
      if (entry.path().filename() == "CMakeLists.txt")
        names.push_back(fs::relative(entry.path(), source_root()).generic_string());
  std::map<std::string, Lines> files;
  for (const std::string& name : names) files[name] = read_lines(source_root() / name);
  return files;
}

// ---- Links -------------------------------------------------------------------------------------

/// The text without blocks of code and, unless `spans`, without text between backticks.
std::string prose_of(const Lines& lines, bool spans = false) {
  std::string text;
  bool open = false;
  for (const std::string& line : lines) {
    if (is_fence(line)) open = !open;
    if (!open && !is_fence(line)) text += line + "\n";
  }
  for (size_t begin = 0; !spans && (begin = text.find('`', begin)) != text.npos;) {
    const size_t ticks = std::min(text.find_first_not_of('`', begin), text.size()) - begin;
    const size_t end = text.find(std::string(ticks, '`'), begin + ticks);
    const size_t behind = end == text.npos ? begin + ticks : end + ticks;
    text.erase(begin, behind - begin);
  }
  return text;
}

/// The targets of [text](x), ![text](x), [text]: x, href="x", src="x" and srcset="x".
std::vector<std::string> links_of(const Lines& lines) {
  static const std::regex kLink(
      "\\]\\(\\s*<?([^)>\\s]*)|(?:href|src|srcset)=\"([^\"]*)\"|\\n\\[[^\\]\\n]+\\]:\\s*(\\S+)");
  const std::string text = "\n" + prose_of(lines);
  std::vector<std::string> links;
  for (std::sregex_iterator it(text.begin(), text.end(), kLink), end; it != end; ++it)
    for (size_t group : {1, 2, 3})
      if ((*it)[group].matched) links.push_back((*it)[group]);
  return links;
}

/// The anchor that GitHub makes from a heading: lower case, - for spaces, no punctuation.
std::string slug(std::string heading) {
  static const std::regex kLink("!?\\[([^\\]]*)\\]\\([^)]*\\)");
  heading = std::regex_replace(heading, kLink, "$1");
  std::string slug;
  for (unsigned char c : heading) {
    if (c == ' ') c = '-';
    if (std::isalnum(c) || c == '-' || c == '_' || c >= 0x80)
      slug += static_cast<char>(std::tolower(c));
  }
  return slug;
}

/// The anchors of a document: its headings (x, x-1, x-2 if they are equal) and <a id="x">.
std::set<std::string> anchors_of(const Lines& lines) {
  static const std::regex kHeading("\\n#{1,6} +([^\\n]*?) *#*(?=\\n)"),
      kAnchor("<a (?:id|name)=\"([^\"]*)");
  const std::string text = "\n" + prose_of(lines, true);
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  for (std::sregex_iterator it(text.begin(), text.end(), kHeading), end; it != end; ++it) {
    const std::string name = slug((*it)[1]);
    const int before = seen[name]++;
    anchors.insert(before ? fmt::format("{}-{}", name, before) : name);
  }
  for (std::sregex_iterator it(text.begin(), text.end(), kAnchor), end; it != end; ++it)
    anchors.insert((*it)[1]);
  return anchors;
}

/// The file that `link` in `document` leads to, as a path from the root; none for a link to the
/// web.
std::optional<std::string> target_of(const std::string& document, const std::string& link) {
  static const std::regex kScheme("[a-z]+:.*");
  if (std::regex_match(link, kScheme)) return {};
  const std::string path = link.substr(0, link.find('#'));
  if (path.empty()) return document;
  return (fs::path(document).parent_path() / path).lexically_normal().generic_string();
}

/// Why `link` in `document` is broken; empty if it is not.
std::string broken(const std::string& document, const std::string& link) {
  const std::optional<std::string> target = target_of(document, link);
  if (!target) return "";
  if (target->starts_with("..") || target->starts_with("/") || !fs::exists(source_root() / *target))
    return fmt::format("{}: no file {}", document, link);
  const size_t hash = link.find('#');
  if (hash == link.npos) return "";
  if (!target->ends_with(".md") ||
      !anchors_of(read_lines(source_root() / *target)).contains(link.substr(hash + 1)))
    return fmt::format("{}: no heading {}", document, link);
  return "";
}

}  // namespace

TEST_CASE("documents: the code that they show is compiled") {
  const std::set<std::string> kLanguages = {"", "sh", "text", "json", "python", "cpp", "cmake"};
  std::map<std::string, std::map<std::string, Lines>> compiled;
  compiled["cpp"] = compiled_files(false);
  compiled["cmake"] = compiled_files(true);
  std::set<std::string> shown;
  for (const std::string& document : documents()) {
    for (const Block& block : blocks_of(read_lines(source_root() / document))) {
      INFO(document << ", line " << block.line << ":" << joined(block.lines));
      REQUIRE(!block.lines.empty());
      CHECK_MESSAGE(kLanguages.contains(block.language),
                    "not a language of ours: ", block.language);
      if (block.language.empty())
        for (const std::string& line : block.lines)
          CHECK_MESSAGE(!line.ends_with(";"), "C++ that is not marked as cpp: ", line);
      if (!compiled.contains(block.language)) continue;
      bool found = false;
      for (const auto& [file, lines] : compiled[block.language])
        if (stands_in(block.lines, lines)) found = shown.insert(file).second || true;
      CHECK_MESSAGE(found, "no file of the tests has these lines");
    }
  }
  for (const auto& entry : compiled["cpp"])
    if (entry.first.starts_with("tests/readme/"))
      CHECK_MESSAGE(shown.contains(entry.first), entry.first, " is shown by no document");
}

TEST_CASE("documents: links lead to existing files and headings, and every picture is shown") {
  std::set<std::string> targets;
  for (const std::string& document : documents()) {
    for (const std::string& link : links_of(read_lines(source_root() / document))) {
      const std::string finding = broken(document, link);
      CHECK_MESSAGE(finding.empty(), finding);
      targets.insert(target_of(document, link).value_or(""));
    }
  }
  for (const auto& entry : fs::directory_iterator(source_root() / "docs/pictures")) {
    const std::string file = "docs/pictures/" + entry.path().filename().string();
    CHECK_MESSAGE(targets.contains(file), file, " is shown by no document");
  }
}

TEST_CASE("documents: the checks find what they look for") {
  const Lines file = {"int main() {", "  f(", "      1);", "", "  g();", "}"};
  CHECK(stands_in({"f(", "    1);", "", "g();"}, file));
  CHECK(stands_in({"    g();"}, file));
  CHECK_FALSE(stands_in({"f(", "  1);"}, file));
  CHECK_FALSE(stands_in({"f(", "    1);", "g();"}, file));
  CHECK_FALSE(stands_in({"f(", "    2);"}, file));
  CHECK_FALSE(stands_in({"g();", "}", "}"}, file));
  const std::vector<Block> blocks =
      blocks_of({"text", "```cpp", "x", "```", "- list", "  ```", "  y", "  ```", "```sh", "z"});
  REQUIRE(blocks.size() == 3);
  CHECK((blocks[0].line == 3 && blocks[0].language == "cpp" && blocks[0].lines == Lines{"x"}));
  CHECK((blocks[1].language.empty() && blocks[1].lines == Lines{"  y"}));

  CHECK(links_of({"[a](b.md) `[c](d)` ![e", "f](g.png \"title\")", "```", "[x](y)", "```",
                  "[h]: i.md", "<img src=\"j.svg\" width=\"9\"> [](k#l)"}) ==
        Lines{"b.md", "g.png", "i.md", "j.svg", "k#l"});
  CHECK(slug("Ops, layers & `tern::Optim`_x of [your](x.md) own-1") ==
        "ops-layers--ternoptim_x-of-your-own-1");
  CHECK(anchors_of({"# A", "```", "# B", "```", "## A ##", "#no", "<a id=\"pt\"></a>"}) ==
        std::set<std::string>{"a", "a-1", "pt"});
  CHECK(broken("docs/models.md", "../README.md").empty());
  CHECK(broken("docs/models.md", "#gmlp").empty());
  CHECK(broken("README.md", "docs/models.md#gmlp").empty());
  CHECK(broken("README.md", "https://example.org/x#y").empty());
  CHECK(broken("README.md", "docs").empty());
  for (const char* link : {"models.md", "docs/models.md#none", "#none", "tern.h#gmlp", "../x"})
    CHECK_FALSE(broken("README.md", link).empty());
}

}  // namespace tern::test::test_documents
