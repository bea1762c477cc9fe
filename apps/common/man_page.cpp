// The manual page of a program, section 1.
#include <fmt/format.h>

#include <cctype>

#include "tern/apps/common/help.h"

namespace tern::apps {
namespace {

// Text for roff: a hyphen is a minus, so that flags can be copied; a dot or quote at the start of a
// line is no request.
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

std::string paragraphs(const std::string& text, const char* request = ".PP") {
  std::string out;
  for (const std::string& line : lines_of(text))
    out += fmt::format("{}\n{}\n", request, roff(line));
  return out;
}

// "trains language models": what follows "NAME \-".
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

// The flags and examples of a command; of a program with many, of none.
std::string entries(const Command& command) {
  std::string out;
  const CommandRows rows(command);
  for (const auto& [name, group] : flag_groups(rows.list)) {
    out += fmt::format(".PP\n{}\n", italic(name));
    for (const Setting* s : group) out += flag_entry(*s);
  }
  return command.examples.empty() ? out : out + paragraphs("Examples:\n" + command.examples);
}

std::string synopsis(const Program& p) {
  std::string out;
  for (const Command& c : p.commands) {
    out += fmt::format("{}{}", out.empty() ? "" : ".br\n", bold(p.name));
    if (!c.name.empty()) out += " " + bold(c.name);
    for (const std::string& word : usage_words(CommandRows(c).list)) out += " " + roff(word);
    out += "\n";
  }
  return out;
}

// What all programs have in common.
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
)";

}  // namespace

std::string man_page(const Program& p, const std::string& version) {
  std::string title = p.name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string out = fmt::format(".TH {} 1 \"\" \"tern {}\" \"User Commands\"\n.nh\n.ad l\n", title,
                                version);  // flags are not to be hyphenated
  out += fmt::format(".SH NAME\n{} \\- {}\n", p.name, roff(summary(p.about)));
  out += ".SH SYNOPSIS\n" + synopsis(p);
  out += ".SH DESCRIPTION\n" + paragraphs(p.about + "\n" + p.more);
  const bool several = !p.commands[0].name.empty();
  out += ".SH OPTIONS\n" + entries(several ? Command{} : p.commands[0]);
  if (several) out += ".SH COMMANDS\n";
  for (const Command& c : p.commands)
    if (several)
      out += fmt::format(".SS {} {}\n{}{}", p.name, c.name, paragraphs(c.about), entries(c));
  return out + kEnd;
}

}  // namespace tern::apps
