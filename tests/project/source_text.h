// The repository as text, for the tests of its rules: its files, what they include, the functions
// in them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tern::test {

using Findings = std::vector<std::string>;

/// What each file includes of ours, named from the root: {"nn/linear.h", {"core/ops/ops.h", ...}}.
using IncludeGraph = std::map<std::string, std::vector<std::string>>;

const std::filesystem::path& source_root();

std::vector<std::string> read_lines(const std::filesystem::path& path);

/// Every .h and .cpp of ours, named from the root: "core/tensor/tensor.h".
std::vector<std::string> source_files();

IncludeGraph include_graph();

/// The files of ours that the text includes, named from the root; spelling mistakes to `findings`.
std::vector<std::string> our_includes(const std::vector<std::string>& lines, Findings& findings);

/// What follows a preprocessor directive: `"x.h"` for `# include "x.h"`; empty if it is another.
std::string after_directive(const std::string& line, const std::string& name);

/// All files that `file` includes, directly or not.
std::set<std::string> reachable(const std::string& file, const IncludeGraph& graph);

/// Sets of two or more nodes that all reach each other.
std::vector<std::set<std::string>> circles(const IncludeGraph& graph);

/// The text without what could hold a brace and is not code: comments, directives, what is in
/// quotation marks. Lines stay where they are.
std::string bare_code(const std::vector<std::string>& lines);

struct Function {
  size_t line;   ///< its first, from 1
  size_t lines;  ///< up to the closing brace
};

/// The function bodies of a text that lie in no other: in namespaces and classes at any depth,
/// lambdas of a namespace included. What is inside of a function belongs to it.
std::vector<Function> functions_of(const std::vector<std::string>& lines);

/// The findings, a line each.
std::string joined(const Findings& findings);

}  // namespace tern::test
