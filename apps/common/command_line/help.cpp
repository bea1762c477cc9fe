// Formats --help for a terminal, the manual page in roff, and the help of all commands in Markdown.
#include "tern/apps/common/command_line/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

// In the order of Group.
constexpr const char* kGroups[] = {"Options",        "Data",      "Model",
                                   "Training",       "Optimizer", "Memory and speed",
                                   "Run and output", "Help"};
constexpr size_t kLongestChoice = 24;  // a longer list than "f32|bf16" follows the description

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

// The description, the list of choices where value_text() is only NAME, and the default.
std::string about_text(const Setting& s) {
  std::string text = s.about;
  if (lists_choices(s)) text += fmt::format("; one of {}", fmt::join(s.words, ", "));
  if (s.required) text += " (required)";
  const std::string given = default_text(s);
  return given.empty() ? text : fmt::format("{} (default {})", text, given);
}

// For each group its name and the settings that have a flag.
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

// "[FLAGS] RUNS...", with the required flags.
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

// The lines of a text that are not empty.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

// "  --tie, --no-tie", "  --epochs N".
std::string flag_text(const Setting& s) {
  if (s.is_positional()) return "  " + positional_text(s);
  const std::string value = value_text(s);
  return fmt::format("  {}{}{}", fmt::join(s.names(), ", "), value.empty() ? "" : " ", value);
}

// A row of two columns; if the left text is too long, it gets a line of its own.
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

// The examples of a command; for a program with many commands the first example of each.
std::vector<std::string> examples_of(const Program& program, const Command* command) {
  std::vector<std::string> lines;
  if (command)
    lines = lines_of(command->examples);
  else
    for (const Command& c : program.commands)
      if (!c.examples.empty()) lines.push_back(lines_of(c.examples)[0]);
  for (std::string& line : lines) line = title_of(program.name) + " " + line;
  return lines;
}

// ---- the manual page, section 1 ---------------------------------------------------------------

// Escapes text for roff: hyphens become minus signs, so that flags can be copied, and a dot or
// quote at the start of a line is not a request.
std::string roff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool start = i == 0 || text[i - 1] == '\n';
    if (start && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else if (text[i] == '|')
      out += "|\\:";  // a line may end here
    else
      out += text[i];
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string roff_paragraphs(const std::string& text, const char* request = ".PP") {
  std::string out;
  for (const std::string& line : lines_of(text))
    out += fmt::format("{}\n{}\n", request, roff(line));
  return out;
}

// The text after "NAME \-", such as "trains language models".
std::string summary(const std::string& about) {
  std::string line = about.substr(0, about.find('\n'));
  if (line.ends_with('.')) line.pop_back();
  if (!line.empty()) line[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(line[0])));
  return line;
}

std::string flag_entry(const Setting& s) {
  std::string out = ".TP\n";
  for (const std::string& name : s.names()) out += (out.back() == '\n' ? "" : ", ") + bold(name);
  if (!s.is_toggle() && !s.is_positional()) out += " " + italic(value_text(s));
  return fmt::format("{}\n{}\n", out, roff(about_text(s)));
}

// The flags and examples of a command.
std::string entries(const Program& program, const Command& command) {
  std::string out;
  const CommandRows rows(command);
  for (const auto& [name, group] : flag_groups(rows.list)) {
    out += fmt::format(".PP\n{}\n", italic(name));
    for (const Setting* s : group) out += flag_entry(*s);
  }
  if (!command.examples.empty()) out += roff_paragraphs("Examples:");
  for (const std::string& line : examples_of(program, &command)) out += roff_paragraphs(line);
  return out + roff_paragraphs(command.more);
}

std::string synopsis(const Program& p) {
  std::string out;
  for (const Command& c : p.commands) {
    out += fmt::format("{}{}", out.empty() ? "" : ".br\n", bold(title_of(p.name)));
    if (!c.name.empty()) out += " " + bold(c.name);
    if (c.part)
      out += " ...";
    else
      for (const std::string& word : usage_words(CommandRows(c).list)) out += " " + roff(word);
    out += "\n";
  }
  return out;
}

// The sections at the end of every manual page.
constexpr const char* kEnd = R"(.SH EXIT STATUS
.TP
0
All went well.
.TP
1
The training diverged, or something unexpected happened; of \fB\-\-dry\-run\fR: it does not fit.
.TP
2
A flag or a file is wrong; a line on standard error says which.
.TP
3
Under mpirun another rank was lost.
.TP
130
A signal stopped it; a training has saved itself, and \fB\-\-resume\fR continues it.
.SH ENVIRONMENT
.TP
\fBCOLUMNS\fR
The width of the lines of \fB\-\-help\fR, if it is not that of the terminal.
.TP
\fBNO_COLOR\fR
If it is not empty, no colours are shown.
.TP
\fBTERM\fR
If it is empty or dumb, progress is a line now and then instead of a bar.
.TP
\fBOMP_NUM_THREADS\fR
Threads to use where \fB\-\-threads\fR does not say.
.TP
\fBTERN_MAX_LEVEL\fR
The highest vector instructions to use: baseline, avx2, avx512, avx512_bf16 or amx.
)";

}  // namespace

CommandRows::CommandRows(const Command& command) {
  if (command.settings) command.settings(list);
  list.group(Group::help);
  help = &list.toggle("help", unused_, "print this help and exit").flag("-h,--help");
  version = &list.toggle("version", unused_, "print the version and exit");
}

std::string positional_text(const Setting& s) {
  return upper(s.flags) + (s.is_list() ? "..." : "");
}

std::string usage_text(const Program& program, const Command* command) {
  const std::string called =
      title_of(program.name) + (command && !command->name.empty() ? " " + command->name : "");
  return fmt::format(
      "{} {}", called,
      command ? fmt::format("{}", fmt::join(usage_words(CommandRows(*command).list), " "))
              : "COMMAND [FLAGS]");
}

std::string value_text(const Setting& s) { return lists_choices(s) ? "NAME" : s.type; }

std::string help_text(const Program& program, const Command* command, int64_t columns) {
  const bool several = !program.commands[0].name.empty();
  if (!several) command = &program.commands[0];
  const CommandRows rows(command ? *command : Command{});
  std::string out = wrapped("Usage: " + usage_text(program, command), columns, 7) +
                    paragraphs(several && command ? command->about : program.about, columns);
  if (!command) {
    const std::string more =
        fmt::format("`{} COMMAND --help` lists the flags of a command.", title_of(program.name));
    out += paragraphs(more, columns) + "\nCommands:\n";
    size_t column = 14;
    for (const Command& c : program.commands) column = std::max(column, c.name.size() + 4);
    for (const Command& c : program.commands) out += row("  " + c.name, c.about, column, columns);
  }
  out += flags_text(rows.list, columns);
  const std::vector<std::string> examples = examples_of(program, command);
  if (!examples.empty()) out += "\nExamples:\n";
  for (const std::string& line : examples) out += wrapped("  " + line, columns, 4);
  const std::string& more = several && command ? command->more : program.more;
  if (!more.empty()) out += "\n";
  for (const std::string& line : lines_of(more)) out += wrapped(line, columns, 4);
  return out;
}

int64_t help_columns() {
  const char* const set = std::getenv("COLUMNS");
  const int64_t given = set ? std::atoll(set) : 0, terminal = training::terminal_columns(stdout);
  return std::max<int64_t>(given > 0 ? given : terminal > 0 ? terminal : 80, 40);
}

std::string help_pages(const Program& p) {
  constexpr int64_t kColumns = 80;
  const auto section = [&](const std::string& heading, const Command* command) {
    return fmt::format("{}\n\n```text\n{}```\n\n", heading, help_text(p, command, kColumns));
  };
  const std::string title = title_of(p.name);
  std::string out = section("## " + title, nullptr);
  for (const Command& c : p.commands)
    if (!c.name.empty() && !c.part) out += section("### " + title + " " + c.name, &c);
  return out;
}

std::string man_page(const Program& p, const std::string& version) {
  const std::string title = title_of(p.name);
  std::string name = title, others;  // of this page, and of those of the commands: "tern-lm"
  std::replace(name.begin(), name.end(), ' ', '-');
  std::string out =
      fmt::format(".TH {} 1 \"\" \"tern {}\" \"User Commands\"\n.nh\n.ad l\n", upper(name),
                  version);  // .nh: no hyphenation, which would break flags
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(summary(p.about)));
  out += ".SH SYNOPSIS\n" + synopsis(p);
  out += ".SH DESCRIPTION\n" + roff_paragraphs(p.about + "\n" + p.more);
  const bool several = !p.commands[0].name.empty();
  out += ".SH OPTIONS\n" + entries(p, several ? Command{} : p.commands[0]);
  if (several) out += ".SH COMMANDS\n";
  for (const Command& c : p.commands) {
    if (several)
      out += fmt::format(".SS {} {}\n{}{}", title, c.name, roff_paragraphs(c.about), entries(p, c));
    if (c.part)
      others += fmt::format("{}{}(1)", others.empty() ? "" : ", ", bold(name + "-" + c.name));
  }
  return out + kEnd + (others.empty() ? "" : ".SH SEE ALSO\n" + others + "\n");
}

}  // namespace tern::apps
