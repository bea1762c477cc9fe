#include "tern/apps/common/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "tern/apps/common/standard_streams.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

// In the order of Group.
constexpr const char* kGroups[] = {"Options",        "Data",      "Model",
                                   "Training",       "Optimizer", "Memory and speed",
                                   "Run and output", "Help"};
constexpr size_t kLongestChoice = 24;  // of "f32|bf16": more words are listed behind the text

bool lists_choices(const Setting& s) { return !s.words.empty() && s.type.size() > kLongestChoice; }

std::string default_text(const Setting& s) {
  return std::visit(
      [&]<class T>(const T* value) -> std::string {
        if constexpr (std::is_same_v<T, bool>)
          return s.turned_off_by(s.names().back()) ? s.names()[*value ? 0 : 1] : "";
        else if constexpr (std::is_same_v<T, std::vector<std::string>> ||
                           std::is_same_v<T, std::vector<int64_t>>)
          return fmt::format("{}", fmt::join(*value, ","));
        else
          return fmt::format("{}", *value);
      },
      s.value);
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string positional_text(const Setting& s) {
  return upper(s.flags) + (s.is_list() ? "..." : "");
}

// "  --tie, --no-tie", "  --epochs N".
std::string flag_text(const Setting& s) {
  if (s.is_positional()) return "  " + positional_text(s);
  const std::string value = value_text(s);
  return fmt::format("  {}{}{}", fmt::join(s.names(), ", "), value.empty() ? "" : " ", value);
}

// A row of two columns; a first one that is too long has a line of its own.
std::string row(const std::string& left, const std::string& right, size_t column, int64_t columns) {
  std::string text = wrapped(std::string(column, ' ') + right, columns);
  if (left.size() + 2 > column) return left + "\n" + text;
  return text.replace(0, left.size(), left);
}

// Where the second column begins.
size_t second_column(int64_t columns) { return columns < 60 ? 8 : columns < 100 ? 26 : 34; }

std::string paragraphs(const std::string& text, int64_t columns) {
  std::string out;
  for (const std::string& line : lines_of(text)) out += "\n" + wrapped(line, columns);
  return out;
}

std::string flags_text(const Settings& list, int64_t columns) {
  std::string out;
  for (const auto& [name, rows] : flag_groups(list)) {
    out += fmt::format("\n{}:\n", name);
    for (const Setting* s : rows)
      out += row(flag_text(*s), about_text(*s), second_column(columns), columns);
  }
  return out;
}

// Of a program with many commands: the first example of each.
std::vector<std::string> examples_of(const Program& program, const Command* command) {
  if (command) return lines_of(command->examples);
  std::vector<std::string> first;
  for (const Command& c : program.commands)
    if (!c.examples.empty()) first.push_back(lines_of(c.examples)[0]);
  return first;
}

}  // namespace

CommandRows::CommandRows(const Command& command) {
  if (command.settings) command.settings(list);
  list.group(Group::help);
  help = &list.toggle("help", unused_, "print this help and exit").flag("-h,--help");
  version = &list.toggle("version", unused_, "print the version and exit");
}

std::vector<std::pair<std::string, std::vector<const Setting*>>> flag_groups(const Settings& list) {
  std::vector<std::pair<std::string, std::vector<const Setting*>>> groups;
  for (size_t g = 0; g < std::size(kGroups); ++g) {
    std::vector<const Setting*> rows;
    for (const Setting& s : list.rows())
      if (!s.flags.empty() && s.heading == static_cast<Group>(g)) rows.push_back(&s);
    if (!rows.empty()) groups.emplace_back(kGroups[g], std::move(rows));
  }
  return groups;
}

std::string value_text(const Setting& s) { return lists_choices(s) ? "NAME" : s.type; }

std::string about_text(const Setting& s) {
  std::string text = s.about;
  if (lists_choices(s)) text += fmt::format("; one of {}", fmt::join(s.words, ", "));
  if (s.required) text += " (required)";
  const std::string given = default_text(s);
  return given.empty() ? text : fmt::format("{} (default {})", text, given);
}

std::vector<std::string> usage_words(const Settings& list) {
  std::vector<std::string> words, values;
  for (const Setting& s : list.rows())
    if (s.is_positional())
      values.push_back(positional_text(s));
    else if (s.required)
      words.push_back(fmt::format("{} {}", s.names()[0], value_text(s)));
  words.emplace_back("[FLAGS]");
  words.insert(words.end(), values.begin(), values.end());
  return words;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string help_text(const Program& program, const Command* command, int64_t columns) {
  const bool several = !program.commands[0].name.empty();
  if (!several) command = &program.commands[0];
  const CommandRows rows(command ? *command : Command{});
  const std::string called = program.name + (several && command ? " " + command->name : "");
  std::string out =
      wrapped(fmt::format("Usage: {} {}", called,
                          command ? fmt::format("{}", fmt::join(usage_words(rows.list), " "))
                                  : "COMMAND [FLAGS]"),
              columns, 7) +
      paragraphs(several && command ? command->about : program.about, columns);
  if (!command) {
    out += "\nCommands:\n";
    for (const Command& c : program.commands) out += row("  " + c.name, c.about, 14, columns);
  }
  out += flags_text(rows.list, columns);
  const std::vector<std::string> examples = examples_of(program, command);
  if (!examples.empty()) out += "\nExamples:\n";
  for (const std::string& line : examples) out += wrapped("  " + line, columns, 4);
  if (several && command) return out;
  if (!program.more.empty()) out += "\n";
  for (const std::string& line : lines_of(program.more)) out += wrapped(line, columns, 4);
  return out;
}

int64_t help_columns() {
  const char* const set = std::getenv("COLUMNS");
  const int64_t given = set ? std::atoll(set) : 0, terminal = train::terminal_columns(stdout);
  return std::max<int64_t>(given > 0 ? given : terminal > 0 ? terminal : 80, 40);
}

}  // namespace tern::apps
