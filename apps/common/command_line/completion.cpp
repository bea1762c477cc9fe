// Generates completion scripts for bash and zsh: commands, flags and the values of flags.
#include <fmt/format.h>

#include "tern/apps/common/command_line/help.h"

namespace tern::apps {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

using Rows = std::vector<const Setting*>;

// The settings that the command line can set, with a flag or as a bare word.
Rows rows_of(const Settings& list) {
  Rows rows;
  for (const Setting& s : list.rows())
    if (!s.flags.empty()) rows.push_back(&s);
  return rows;
}

// Both scripts list these. A program with one command has no command names, only flags.
std::vector<Command> commands_of(const Program& p) {
  return p.commands[0].name.empty() ? std::vector<Command>() : p.commands;
}
Command program_command(const Program& p) {
  return p.commands[0].name.empty() ? p.commands[0] : Command{};
}

bool takes_folder(const Setting& s) { return s.type == "DIR"; }
bool takes_file(const Setting& s) {
  return s.type.find("FILE") != s.type.npos || s.type.find("DIR|") != s.type.npos;
}

// ---- bash -------------------------------------------------------------------------------------

// The bash command that lists the values of a flag.
std::string bash_values(const Setting& s) {
  if (const auto words = s.choices(); !words.empty())
    return fmt::format("compgen -W '{}' -- \"$cur\"", joined(words));
  if (takes_folder(s)) return "compgen -d -- \"$cur\"";
  if (takes_file(s)) return "compgen -f -- \"$cur\"";
  return "";
}

// Branches of a case statement, "COMMAND FLAG", for the flags that take a value.
std::string bash_cases(const Settings& list, const std::string& command, bool many) {
  std::string cases;
  for (const Setting* s : rows_of(list)) {
    if (s->is_positional() || s->is_toggle() || (many && !s->is_list())) continue;
    const std::string values = bash_values(*s);
    if (many && values.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& n : s->names()) patterns.push_back(fmt::format("'{} {}'", command, n));
    cases += fmt::format("    {})", joined(patterns, " | "));
    if (takes_folder(*s) || takes_file(*s)) cases += " compopt -o filenames 2>/dev/null;";
    if (!values.empty()) cases += fmt::format(" mapfile -t COMPREPLY < <({});", values);
    cases += " return ;;\n";
  }
  return cases;
}

// What lists the paths that a command takes besides flags.
std::string bash_paths(const Settings& list) {
  for (const Setting* s : rows_of(list))
    if (s->is_positional() && !bash_values(*s).empty())
      return fmt::format(
          " [[ $cur == -* ]] || {{ compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <({}); "
          "return; }}",
          bash_values(*s));
  return "";
}

constexpr const char* kBash = R"(_tern_{name}() {{
{parts}  local cur=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD-1]}} command= words= i
  COMPREPLY=()
  # --flag=value comes as three words.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $flag == = ]]; then
    flag=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      {commands}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case "$command $flag" in
{values}  esac
  # Flags that several values may follow.
  for ((i = COMP_CWORD - 1; i > 0; --i)); do
    [[ ${{COMP_WORDS[i]}} == -* ]] && break
  done
  [[ $cur == -* ]] || case "$command ${{COMP_WORDS[i]}}" in
{many}    *) ;;
  esac
  case $command in
{flags}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
)";

// For commands that are programs of their own: their functions see a line without its first word.
constexpr const char* kBashParts =
    R"(  if ((COMP_CWORD > 1)) && [[ ${{COMP_WORDS[1]}} == @({}) ]]; then
    local -a line=("${{COMP_WORDS[@]:1}}")
    local -a COMP_WORDS=("${{line[@]}}")
    local COMP_CWORD=$((COMP_CWORD - 1))
    "_tern_${{line[0]//-/_}}"
    return
  fi
)";

// The functions of a program and of its commands that are programs.
std::string bash_functions(const Program& p) {
  std::string values, many, flags, functions;
  std::vector<std::string> names, parts;
  const auto add = [&](const Command& c, const std::string& words, const char* pattern) {
    const CommandRows rows(c);
    values += bash_cases(rows.list, c.name, false);
    many += bash_cases(rows.list, c.name, true);
    flags += fmt::format("    {}) words='{}{}';{} ;;\n", pattern, words,
                         joined(flag_names(rows.list)), words.empty() ? bash_paths(rows.list) : "");
  };
  for (const Command& c : commands_of(p)) {
    names.push_back(c.name);
    add(c, "", c.name.c_str());
    if (!c.part) continue;
    parts.push_back(c.name);
    functions += c.part(bash_functions);
  }
  add(program_command(p), names.empty() ? "" : joined(names) + " ", "*");
  return functions +
         fmt::format(
             kBash, fmt::arg("name", p.name),
             fmt::arg("parts", parts.empty() ? "" : fmt::format(kBashParts, joined(parts, "|"))),
             fmt::arg("commands", names.empty() ? "''" : joined(names, " | ")),
             fmt::arg("values", values), fmt::arg("many", many), fmt::arg("flags", flags));
}

// ---- zsh --------------------------------------------------------------------------------------

// Escapes a text for use between single quotes in a specification of _arguments.
std::string zsh_quoted(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string zsh_action(const Setting& s) {
  if (const auto words = s.choices(); !words.empty()) return "(" + joined(words) + ")";
  return takes_folder(s) ? "_files -/" : takes_file(s) ? "_files" : "";
}

std::string zsh_values(const Setting& s) {
  const std::string name = s.names().back();
  return fmt::format(":{}:{}", name.substr(name.find_first_not_of('-')), zsh_action(s));
}

std::string zsh_flag(const Setting& s) {
  if (s.is_positional()) return fmt::format("'*:{}:{}'", zsh_quoted(s.flags), zsh_action(s));
  std::string out;
  for (const std::string& name : s.names())
    out += fmt::format("{}'{}{}{}[{}]{}'", out.empty() ? "" : " ",
                       s.is_list() || s.repeated ? "*" : fmt::format("({})", joined(s.names())),
                       name, !s.is_toggle() && name.starts_with("--") ? "=" : "",
                       zsh_quoted(s.about), s.is_toggle() ? "" : zsh_values(s));
  return out;
}

std::string zsh_arguments(const Settings& list, const std::string& indent) {
  std::string out = indent + "_arguments -S";
  for (const Setting* s : rows_of(list)) out += fmt::format(" \\\n{}  {}", indent, zsh_flag(*s));
  return out;
}

std::string zsh_name(const Program& p) { return "_tern_" + p.name; }

// The body of a completion function.
std::string zsh_body(const Program& p) {
  const std::string own = zsh_arguments(CommandRows(program_command(p)).list, "");
  const std::vector<Command> commands = commands_of(p);
  if (commands.empty()) return own + "\n";
  std::string out = "local curcontext=$curcontext state line ret=1\n_arguments -C" +
                    own.substr(std::string("_arguments").size()) + " \\\n  '1:command:((";
  for (const Command& c : commands)
    out += fmt::format("{}{}\\:\"{}\"", &c == &commands[0] ? "" : " ", c.name,
                       zsh_quoted(zsh_quoted(c.about)));
  out += "))' \\\n  '*::argument:->argument' && ret=0\n";
  out += "[[ $state == argument ]] && case $words[1] in\n";
  for (const Command& c : commands)
    out += fmt::format(
        "  {})\n{} && ret=0\n    ;;\n", c.name,
        c.part ? "    " + c.part(zsh_name) : zsh_arguments(CommandRows(c).list, "    "));
  return out + "esac\nreturn ret\n";
}

}  // namespace

std::string bash_completion(const Program& p) {
  return fmt::format(
      "# bash completion for {0}, generated from its flags.\n{1}complete -F _tern_{0} {0}\n",
      p.name, bash_functions(p));
}

std::string zsh_completion(const Program& p) {
  std::string out =
      fmt::format("#compdef {0}\n# zsh completion for {0}, generated from its flags.\n", p.name);
  for (const Command& c : commands_of(p))
    if (c.part) out += fmt::format("{}() {{\n{}}}\n", c.part(zsh_name), c.part(zsh_body));
  return out + zsh_body(p);
}

}  // namespace tern::apps
