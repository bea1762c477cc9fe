// The manual page of a program, section 1.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tern/apps/common/program_text.h"

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

// Each line a paragraph.
std::string paragraphs(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out += ".PP\n" + roff(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return out;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// "trains language models": what follows "NAME \-".
std::string summary(const std::string& about) {
  std::string line = first_line(about);
  if (!line.empty() && line.back() == '.') line.pop_back();
  if (!line.empty()) line[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(line[0])));
  return line;
}

std::string flag_entry(const FlagText& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back("\\fB" + roff(name) + "\\fR");
  std::string out = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!flag.value.empty() && !flag.positional) out += " \\fI" + roff(flag.value) + "\\fR";
  out += "\n" + roff(flag.about);
  if (flag.required) out += " (required)";
  if (!flag.by_default.empty()) out += fmt::format(" [{}]", roff(flag.by_default));
  return out + "\n";
}

std::string entries(const CommandText& command) {
  std::string out;
  for (const FlagText& flag : command.flags) out += flag_entry(flag);
  return out;
}

std::string synopsis(const ProgramText& p) {
  auto line = [&](const std::string& command, const CommandText& c) {
    std::string text = fmt::format("\\fB{}\\fR{}", roff(p.name), command);
    text += " [\\fIflags\\fR]";
    for (const FlagText& flag : c.flags)
      if (flag.positional) text += fmt::format(" \\fI{}\\fR", roff(flag.names[0]));
    return text + "\n";
  };
  if (p.commands.empty()) return line("", p);
  std::string out = fmt::format("\\fB{}\\fR\n", roff(p.name));
  for (const CommandText& c : p.commands) out += ".br\n" + line(" \\fB" + roff(c.name) + "\\fR", c);
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
130
A signal stopped it; a training has saved itself and goes on with \fB\-\-resume\fR.
.SH ENVIRONMENT
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

std::string man_page(const ProgramText& p, const std::string& version) {
  std::string title = p.name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string out = fmt::format(".TH {} 1 \"\" \"tern {}\" \"User Commands\"\n.nh\n.ad l\n", title,
                                version);  // flags are not to be hyphenated
  out += fmt::format(".SH NAME\n{} \\- {}\n", p.name, roff(summary(p.about)));
  out += ".SH SYNOPSIS\n" + synopsis(p);
  out += ".SH DESCRIPTION\n" + paragraphs(p.about);
  out += ".SH OPTIONS\n" + entries(p);
  if (!p.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandText& c : p.commands)
    out += fmt::format(".SS {} {}\n{}", p.name, c.name, paragraphs(c.about)) + entries(c);
  return out + kEnd;
}

}  // namespace tern::apps
