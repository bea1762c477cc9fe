// The rules of the repository that a compiler does not check: who may include whom, how includes
// are spelt, sizes of files and functions, no macros of our own, every public header in tern.h,
// and README snippets that are the files the tests build.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = TERN_SOURCE_DIR;

/// What each folder may include, itself aside; tests and bench may include everything.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {}},
    {"nn", {"core"}},
    {"optim", {"core"}},
    {"data", {"core"}},
    {"models", {"nn", "core"}},
    {"apps", {"models", "nn", "optim", "data", "core"}},
};
/// Folders that are cut into rooms, and what each room may include of the others. A folder in a
/// room belongs to it.
const std::map<std::string, std::set<std::string>> kRooms = {
    {"core/base", {}},
    {"core/kernels", {"core/base"}},
    {"core/tensor", {"core/base"}},
    {"core/tape", {"core/base", "core/tensor"}},
    {"core/ops", {"core/base", "core/kernels", "core/tensor", "core/tape"}},
    {"core/io", {"core/base", "core/tensor", "core/tape", "core/ops"}},
    {"core/tools", {"core/base", "core/tensor", "core/tape", "core/ops", "core/io"}},
    {"data/loading", {}},
    {"data/images", {"data/loading"}},
    {"data/text", {"data/loading"}},
    {"data/scores", {"data/text"}},
};
const std::vector<std::string> kFolders = {"core",   "nn",   "optim", "data",
                                           "models", "apps", "tests", "bench"};

/// Headers that tern.h leaves out, for those who write ops of their own.
const std::vector<std::string> kForAuthors = {"core/ops/elementwise.h", "core/ops/formula.h",
                                              "core/ops/composed.h", "core/base/simd.h"};

constexpr size_t kMaxFileLines = 400;
constexpr size_t kMaxFunctionLines = 60;
constexpr size_t kMaxColumns = 100;

using Findings = std::vector<std::string>;

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string top_folder(const std::string& file) { return file.substr(0, file.find('/')); }

/// "data/text" for "data/text/detail/x.h"; empty at the top of a folder.
std::string room(const std::string& file) {
  size_t slash = file.find('/', file.find('/') + 1);
  return slash == std::string::npos ? "" : file.substr(0, slash);
}

bool has_rooms(const std::string& folder) {
  return std::any_of(kRooms.begin(), kRooms.end(),
                     [&](const auto& r) { return top_folder(r.first) == folder; });
}

bool is_source(const std::string& file) { return file.ends_with(".h") || file.ends_with(".cpp"); }

/// Every .h and .cpp of ours, named from the root: "core/tensor.h".
std::vector<std::string> source_files() {
  std::vector<std::string> files;
  for (const std::string& folder : kFolders) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      std::string file = fs::relative(entry.path(), kRoot).generic_string();
      if (is_source(file)) files.push_back(file);
    }
  }
  files.push_back("tern.h");
  std::sort(files.begin(), files.end());
  return files;
}

/// What follows a preprocessor directive: `"x.h"` for `# include "x.h"`; empty if it is another.
std::string after_directive(const std::string& line, const std::string& name) {
  size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return "";
  size_t start = line.find_first_not_of(" \t", hash + 1);
  if (start == std::string::npos || line.compare(start, name.size(), name) != 0) return "";
  size_t rest = line.find_first_not_of(" \t", start + name.size());
  return rest == std::string::npos ? "" : line.substr(rest);
}

/// The files of ours that the text includes, named from the root; spelling mistakes to `findings`.
std::vector<std::string> our_includes(const std::vector<std::string>& lines, Findings& findings) {
  std::vector<std::string> out;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string include = after_directive(lines[i], "include");
    if (include.empty()) continue;
    bool quoted = include[0] == '"';
    std::string name = include.substr(1, include.find_first_of("\">", 1) - 1);
    bool ours = name.starts_with("tern/");
    if (ours) out.push_back(name.substr(5));
    if (quoted && (!ours || name.find("..") != std::string::npos))
      findings.push_back(fmt::format("line {}: \"{}\" is not spelt \"tern/...\"", i + 1, name));
    if (!quoted && ours)
      findings.push_back(fmt::format("line {}: <{}> needs quotation marks", i + 1, name));
  }
  return out;
}

/// Includes that break the layering, for a file that includes `includes`.
Findings layering(const std::string& file, const std::vector<std::string>& includes) {
  Findings findings;
  auto allowed = kMayInclude.find(top_folder(file));
  if (allowed == kMayInclude.end()) return findings;
  for (const std::string& include : includes) {
    std::string folder = top_folder(include);
    bool mine = folder == allowed->first;
    if (!mine && !allowed->second.contains(folder))
      findings.push_back(fmt::format("{} must not include {}", file, include));
    if (!mine || !has_rooms(folder) || room(include) == room(file)) continue;
    auto rooms = kRooms.find(room(file));
    if (rooms != kRooms.end() && !rooms->second.contains(room(include)))
      findings.push_back(fmt::format("{} must not include {}", file, include));
  }
  if (has_rooms(allowed->first) && !kRooms.contains(room(file)))
    findings.push_back(fmt::format("{} stands in none of the rooms of {}", file, allowed->first));
  return findings;
}

/// Definitions at the left margin, from their first line to the closing brace.
Findings long_functions(const std::vector<std::string>& lines) {
  Findings findings;
  size_t start = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line == "}" && i - start + 1 > kMaxFunctionLines)
      findings.push_back(fmt::format("line {}: a function of {} lines", start + 1, i - start + 1));
    if (!line.empty() && line[0] != ' ' && line[0] != '}' && line[0] != '#') start = i;
  }
  return findings;
}

Findings style(const std::string& file, const std::vector<std::string>& lines) {
  Findings findings;
  bool test = file.starts_with("tests/");
  if (!test && lines.size() > kMaxFileLines)
    findings.push_back(fmt::format("{} lines, at most {}", lines.size(), kMaxFileLines));
  for (size_t i = 0; i < lines.size(); ++i) {
    auto count = std::count_if(lines[i].begin(), lines[i].end(),
                               [](char c) { return (c & 0xC0) != 0x80; });  // code points
    if (static_cast<size_t>(count) > kMaxColumns)
      findings.push_back(fmt::format("line {}: {} columns", i + 1, count));
    std::string macro = after_directive(lines[i], "define");
    if (!macro.empty() && !macro.starts_with("DOCTEST_CONFIG_"))
      findings.push_back(fmt::format("line {}: the macro {}", i + 1, macro));
  }
  Findings functions = test ? Findings{} : long_functions(lines);
  findings.insert(findings.end(), functions.begin(), functions.end());
  return findings;
}

/// All files that `file` includes, directly or not.
std::set<std::string> reachable(const std::string& file,
                                const std::map<std::string, std::vector<std::string>>& graph) {
  std::set<std::string> seen;
  std::vector<std::string> todo = {file};
  while (!todo.empty()) {
    auto node = graph.find(todo.back());
    todo.pop_back();
    if (node == graph.end()) continue;
    for (const std::string& next : node->second)
      if (seen.insert(next).second) todo.push_back(next);
  }
  return seen;
}

bool is_library(const std::string& file) {
  std::string folder = top_folder(file);
  return folder != "apps" && kMayInclude.contains(folder);
}

/// Headers that are not for users say so at the top: "Inside of core only."
bool is_internal(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (!line.starts_with("//")) return false;
    if (line.find("Inside of") != std::string::npos) return true;
  }
  return false;
}

std::string joined(const Findings& findings) {
  std::string text;
  for (const std::string& f : findings) text += "\n  " + f;
  return text;
}

std::map<std::string, std::vector<std::string>> include_graph() {
  std::map<std::string, std::vector<std::string>> graph;
  Findings ignored;
  for (const std::string& file : source_files())
    graph[file] = our_includes(read_lines(kRoot / file), ignored);
  return graph;
}

}  // namespace

TEST_CASE("repository: includes follow the layers and are spelt tern/...") {
  auto graph = include_graph();
  REQUIRE(graph.size() > 10);
  for (const auto& [file, includes] : graph) {
    Findings findings = layering(file, includes);
    if (!file.starts_with("tests/consumer/") && !file.starts_with("tests/readme/"))
      our_includes(read_lines(kRoot / file), findings);
    for (const std::string& include : includes)
      if (!fs::exists(kRoot / include)) findings.push_back("no such file: " + include);
    std::string text = file + ":" + joined(findings);
    CHECK_MESSAGE(findings.empty(), text);
  }
}

TEST_CASE("repository: sizes of files and functions, columns, no macros") {
  for (const std::string& file : source_files()) {
    Findings findings = style(file, read_lines(kRoot / file));
    CHECK_MESSAGE(findings.empty(), file, ":", joined(findings));
  }
}

// cmake/TernInstall.cmake installs every header that does not say "Inside of ... only.".
TEST_CASE("repository: what is installed is what tern.h and the authors' headers bring") {
  auto graph = include_graph();
  std::set<std::string> brought = reachable("tern.h", graph);
  for (const std::string& header : kForAuthors) {
    brought.insert(header);
    brought.merge(reachable(header, graph));
  }
  for (const auto& [file, includes] : graph) {
    if (!file.ends_with(".h") || !is_library(file)) continue;
    bool internal = is_internal(read_lines(kRoot / file));
    CHECK_MESSAGE(brought.contains(file) != internal, file,
                  internal ? " says that it is internal, but a public header includes it"
                           : " says not \"Inside of ... only.\", but no public header brings it");
  }
}

TEST_CASE("repository: the checks find what they look for") {
  CHECK(layering("core/ops/x.cpp", {"core/tensor/tensor.h", "core/kernels/y.h"}).empty());
  CHECK(layering("core/tape/x.cpp", {"core/ops/ops.h", "core/kernels/y.h"}).size() == 2);
  CHECK(layering("models/x.cpp", {"nn/linear.h", "core/ops/ops.h", "models/y.h"}).empty());
  CHECK(layering("core/ops/x.cpp", {"nn/linear.h"}).size() == 1);
  CHECK(layering("models/x.h", {"optim/adam.h", "data/loader.h", "tern.h"}).size() == 3);
  CHECK(layering("nn/x.h", {"models/gmlp.h"}).size() == 1);
  CHECK(layering("data/text/x.h", {"data/text/detail/y.h", "data/loading/z.h"}).empty());
  CHECK(layering("data/loading/x.h", {"data/text/y.h", "data/y.h"}).size() == 2);
  CHECK(layering("data/x.h", {}).size() == 1);

  Findings spelling;
  std::vector<std::string> text = {"#include <vector>", "#include \"tern/core/ops/ops.h\"",
                                   "#include \"ops.h\"", "  # include <tern/core/base/rng.h>",
                                   "#include \"tern/../x.h\""};
  CHECK(our_includes(text, spelling) ==
        std::vector<std::string>{"core/ops/ops.h", "core/base/rng.h", "../x.h"});
  CHECK(spelling.size() == 3);

  CHECK(style("core/x.h", {"#define TERN_X 1"}).size() == 1);
  CHECK(style("core/x.h", {std::string(101, '/')}).size() == 1);
  CHECK(style("core/x.h", std::vector<std::string>(401)).size() == 1);
  std::vector<std::string> function(61, "  f();");
  function.front() = "void f() {";
  function.back() = "}";
  CHECK(long_functions(function).size() == 1);
  function.erase(function.begin() + 1);
  CHECK(long_functions(function).empty());
}

TEST_CASE("repository: README snippets are the files in tests/readme") {
  std::vector<std::string> lines = read_lines(kRoot / "README.md");
  std::set<std::string> snippets;
  std::string* open = nullptr;
  std::string snippet;
  for (const std::string& line : lines) {
    if (open && line.starts_with("```")) {
      snippets.insert(snippet);
      open = nullptr;
    } else if (open) {
      *open += line + "\n";
    } else if (line == "```cpp") {
      snippet.clear();
      open = &snippet;
    }
  }
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/readme")) {
    std::ifstream in(entry.path());
    files.emplace(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  CHECK(!files.empty());
  CHECK(snippets == files);
}
