// Scans sources without parsing them: strips comments and literals, follows braces to find
// functions, collects includes.
#include "tern/tests/project/source_text.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>

namespace fs = std::filesystem;

namespace tern::test {
namespace {

const std::vector<std::string> kFolders = {"core",  "nn",     "onnx",   "optim",      "data",
                                           "train", "models", "decode", "pretrained", "dist",
                                           "apps",  "tests",  "bench"};

bool is_source(const std::string& file) { return file.ends_with(".h") || file.ends_with(".cpp"); }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

/// The end of the literal or comment that begins at text[i]; i if none begins there.
size_t end_of_literal(const std::string& text, size_t i) {
  auto behind = [&](std::string_view end, size_t from) {
    size_t at = text.find(end, from);
    return at == std::string::npos ? text.size() : at + end.size();
  };
  if (text.compare(i, 2, "//") == 0) return std::min(text.find('\n', i), text.size());
  if (text.compare(i, 2, "/*") == 0) return behind("*/", i + 2);
  if (text.compare(i, 2, "R\"") == 0 && (i == 0 || !is_word(text[i - 1]))) {
    size_t open = text.find('(', i);
    return behind(")" + text.substr(i + 2, open - i - 2) + "\"", open);
  }
  const char quote = text[i];
  if (quote != '"' && quote != '\'') return i;
  const bool digits = i > 0 && is_hex(text[i - 1]) && i + 2 < text.size() && text[i + 2] != '\'';
  if (quote == '\'' && digits) return i;  // a digit separator, as in 1'000
  for (++i; i < text.size() && text[i] != quote; ++i)
    if (text[i] == '\\') ++i;
  return std::min(i + 1, text.size());
}

/// The kind of block that a brace opens, judged by its head: the code between it and the last ; or
/// brace.
enum class Block { space, type, function, initialiser };

/// The head without leading templates and attributes: "struct X : Y".
std::string_view declaration(std::string_view head) {
  while (true) {
    head.remove_prefix(std::min(head.find_first_not_of(" \n\t"), head.size()));
    const bool attribute = head.starts_with("[[");
    if (!attribute && !head.starts_with("template")) return head;
    int depth = 0;
    size_t end = std::min(head.find(attribute ? '[' : '<'), head.size());
    for (; end < head.size(); ++end) {
      if (head[end] == (attribute ? '[' : '<')) ++depth;
      if (head[end] == (attribute ? ']' : '>') && --depth == 0) break;
    }
    head.remove_prefix(std::min(end + 1, head.size()));
  }
}

Block block_of(std::string_view head) {
  head = declaration(head);
  auto begins_with = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view w) {
      return head.starts_with(w) && (head.size() == w.size() || !is_word(head[w.size()]));
    });
  };
  // Also after a macro without a semicolon.
  const bool space = head.find("\nnamespace ") != std::string_view::npos;
  if (space || begins_with({"namespace", "inline namespace", "extern"})) return Block::space;
  if (begins_with({"struct", "class", "union", "enum"})) {
    const bool defines = head.find('=') == std::string_view::npos;
    return defines ? Block::type : Block::initialiser;
  }
  while (!head.empty() && std::isspace(static_cast<unsigned char>(head.back())))
    head.remove_suffix(1);
  if (head.empty() || head.find_first_of("([") == std::string_view::npos) return Block::initialiser;
  if (head.ends_with("=") || head.ends_with("(") || head.ends_with(",")) return Block::initialiser;
  // An initialiser before the body of a constructor: X() : a_{1} {}
  size_t word = head.size();
  while (word > 0 && is_word(head[word - 1])) --word;
  const std::string_view last = head.substr(word);
  const bool after = last == "const" || last == "noexcept" || last == "override" ||
                     last == "final" || last == "mutable" || last == "try";
  const bool returns = head.find("->", head.rfind(')')) != std::string_view::npos ||
                       head.find("requires") != std::string_view::npos;
  return last.empty() || after || returns ? Block::function : Block::initialiser;
}

}  // namespace

const fs::path& source_root() {
  static const fs::path kRoot = TERN_SOURCE_DIR;
  return kRoot;
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in, path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> source_files() {
  std::vector<std::string> files;
  for (const std::string& folder : kFolders) {
    if (!fs::exists(source_root() / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(source_root() / folder)) {
      std::string file = fs::relative(entry.path(), source_root()).generic_string();
      if (is_source(file)) files.push_back(file);
    }
  }
  files.insert(files.end(), {"tern.h", "version.h"});
  std::sort(files.begin(), files.end());
  return files;
}

std::string after_directive(const std::string& line, const std::string& name) {
  size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return "";
  size_t start = line.find_first_not_of(" \t", hash + 1);
  if (start == std::string::npos || line.compare(start, name.size(), name) != 0) return "";
  size_t rest = line.find_first_not_of(" \t", start + name.size());
  return rest == std::string::npos ? "" : line.substr(rest);
}

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

IncludeGraph include_graph() {
  IncludeGraph graph;
  Findings ignored;
  for (const std::string& file : source_files())
    graph[file] = our_includes(read_lines(source_root() / file), ignored);
  return graph;
}

std::set<std::string> reachable(const std::string& file, const IncludeGraph& graph) {
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

std::vector<std::set<std::string>> circles(const IncludeGraph& graph) {
  std::map<std::string, std::set<std::string>> reached;
  for (const auto& [node, next] : graph) reached[node] = reachable(node, graph);
  std::set<std::set<std::string>> found;
  for (const auto& [node, others] : reached) {
    std::set<std::string> circle;
    for (const std::string& other : others)
      if (reached.contains(other) && reached.at(other).contains(node)) circle.insert(other);
    if (circle.size() > 1) found.insert(circle);
  }
  return {found.begin(), found.end()};
}

std::string bare_code(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t first = lines[i].find_first_not_of(" \t");
    const bool directive = first != std::string::npos && lines[i][first] == '#';
    text += (directive ? "" : lines[i]) + "\n";
  }
  std::string code;
  for (size_t i = 0; i < text.size();) {
    const size_t end = end_of_literal(text, i);
    if (end == i) {
      code += text[i++];
    } else {
      for (; i < end; ++i)
        if (text[i] == '\n') code += '\n';
    }
  }
  return code;
}

std::vector<Function> functions_of(const std::vector<std::string>& lines) {
  struct Open {
    Block block;
    size_t line;
    std::string head;
  };
  std::vector<Open> open;
  std::vector<Function> found;
  std::string head;
  size_t line = 1, start = 1;
  auto in_function = [&] {
    return std::any_of(open.begin(), open.end(),
                       [](const Open& o) { return o.block == Block::function; });
  };
  for (char c : bare_code(lines)) {
    const bool blank = head.find_first_not_of(" \n\t") == std::string::npos;
    if (c == '{') {
      open.push_back({block_of(head), blank ? line : start, head});
      head.clear();
    } else if (c == '}' && !open.empty()) {
      const Open last = open.back();
      open.pop_back();
      // After an initialiser its declaration continues.
      head = last.block == Block::initialiser ? last.head + "{}" : "";
      if (last.block == Block::initialiser) start = last.line;
      if (last.block == Block::function && !in_function())
        found.push_back({last.line, line - last.line + 1});
    } else if (c == ';') {
      head.clear();
    } else {
      if (blank && !std::isspace(static_cast<unsigned char>(c))) start = line;
      head += c;
      if (head.ends_with("public:") || head.ends_with("private:") || head.ends_with("protected:"))
        head.clear();
    }
    if (c == '\n') ++line;
  }
  return found;
}

std::string joined(const Findings& findings) {
  std::string text;
  for (const std::string& f : findings) text += "\n  " + f;
  return text;
}

}  // namespace tern::test
