// The repository as text, for tests of its rules: files, their includes, and the functions in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tern::test {

using Findings = std::vector<std::string>;

/// The files of ours that each file includes, named from the root: {"nn/linear.h",
/// {"core/ops/ops.h", ...}}.
using IncludeGraph = std::map<std::string, std::vector<std::string>>;

const std::filesystem::path& source_root();

std::vector<std::string> read_lines(const std::filesystem::path& path);

/// Every .h and .cpp of ours, named from the root: "core/tensor/tensor.h".
std::vector<std::string> source_files();

IncludeGraph include_graph();

/// The files of ours that the text includes, named from the root. Adds spelling mistakes to
/// `findings`.
std::vector<std::string> our_includes(const std::vector<std::string>& lines, Findings& findings);

/// What follows a preprocessor directive: `"x.h"` for `# include "x.h"`; empty for other
/// directives.
std::string after_directive(const std::string& line, const std::string& name);

/// All files that `file` includes, directly or not.
std::set<std::string> reachable(const std::string& file, const IncludeGraph& graph);

/// Sets of two or more nodes that all reach each other.
std::vector<std::set<std::string>> circles(const IncludeGraph& graph);

/// The text without comments, directives and literals, which may contain braces that are not code.
/// Line numbers stay the same.
std::string bare_code(const std::vector<std::string>& lines);

struct Function {
  size_t line;   ///< its first line, from 1
  size_t lines;  ///< up to the closing brace
};

/// The function bodies that are not in another function: in namespaces and classes at any depth,
/// and lambdas in a namespace. All code in a function belongs to it.
std::vector<Function> functions_of(const std::vector<std::string>& lines);

/// The findings, one per line.
std::string joined(const Findings& findings);

}  // namespace tern::test
