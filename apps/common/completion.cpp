// Completion of flags, their values and commands for bash and zsh.
#include <fmt/format.h>

#include <algorithm>

#include "tern/apps/common/program_text.h"

namespace tern::apps {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> command_names(const ProgramText& program) {
  std::vector<std::string> names;
  for (const CommandText& c : program.commands) names.push_back(c.name);
  return names;
}

std::vector<std::string> flag_names(const CommandText& command) {
  std::vector<std::string> names;
  for (const FlagText& flag : command.flags)
    if (!flag.positional) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

// ---- bash -------------------------------------------------------------------------------------

// How the words behind a flag are found.
std::string bash_values(const FlagText& flag) {
  if (const auto words = flag.choices(); !words.empty())
    return fmt::format("compgen -W '{}' -- \"$cur\"", joined(words));
  if (flag.takes_folder()) return "compgen -d -- \"$cur\"";
  if (flag.takes_file()) return "compgen -f -- \"$cur\"";
  return "";
}

// Cases "COMMAND FLAG" for the flags that take a value.
std::string bash_cases(const CommandText& command, const std::string& name, bool many) {
  std::string cases;
  for (const FlagText& flag : command.flags) {
    if (flag.positional || flag.value.empty() || (many && !flag.many)) continue;
    const std::string values = bash_values(flag);
    if (many && values.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& n : flag.names) patterns.push_back(fmt::format("'{} {}'", name, n));
    cases += fmt::format("    {})", joined(patterns, " | "));
    if (flag.takes_folder() || flag.takes_file()) cases += " compopt -o filenames 2>/dev/null;";
    if (!values.empty()) cases += fmt::format(" mapfile -t COMPREPLY < <({});", values);
    cases += " return ;;\n";
  }
  return cases;
}

constexpr const char* kBash = R"(# bash completion for {name}, generated from its flags.
_tern_{name}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD-1]}} command= words= i
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
complete -F _tern_{name} {name}
)";

// ---- zsh --------------------------------------------------------------------------------------

// Inside of single quotes, in a specification of _arguments.
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

std::string zsh_values(const FlagText& flag) {
  std::string action;
  if (const auto words = flag.choices(); !words.empty())
    action = "(" + joined(words) + ")";
  else if (flag.takes_folder())
    action = "_files -/";
  else if (flag.takes_file())
    action = "_files";
  const std::string name = flag.names.back();
  return fmt::format(":{}:{}", name.substr(name.find_first_not_of('-')), action);
}

std::string zsh_flag(const FlagText& flag) {
  const std::string about = fmt::format("[{}]", zsh_quoted(flag.about));
  if (flag.positional) return fmt::format("'*:{}:'", zsh_quoted(flag.names[0]));
  const std::string none = fmt::format("({})", joined(flag.names));
  std::string out;
  for (const std::string& name : flag.names) {
    const bool takes = !flag.value.empty();
    const std::string front = flag.many ? "*" : none;
    out += fmt::format("{}'{}{}{}{}{}'", out.empty() ? "" : " ", front, name,
                       takes && name.starts_with("--") ? "=" : "", about,
                       takes ? zsh_values(flag) : "");
  }
  return out;
}

std::string zsh_arguments(const CommandText& command, const std::string& indent) {
  std::string out = indent + "_arguments -S";
  for (const FlagText& flag : command.flags)
    out += fmt::format(" \\\n{}  {}", indent, zsh_flag(flag));
  return out;
}

}  // namespace

std::string bash_completion(const ProgramText& p) {
  std::string values = bash_cases(p, "", false), many = bash_cases(p, "", true), flags;
  for (const CommandText& c : p.commands) {
    values += bash_cases(c, c.name, false);
    many += bash_cases(c, c.name, true);
    flags += fmt::format("    {}) words='{}' ;;\n", c.name, joined(flag_names(c)));
  }
  std::vector<std::string> first = command_names(p);
  const std::vector<std::string> own = flag_names(p);
  first.insert(first.end(), own.begin(), own.end());
  flags += fmt::format("    *) words='{}' ;;\n", joined(first));
  const std::vector<std::string> names = command_names(p);
  return fmt::format(kBash, fmt::arg("name", p.name),
                     fmt::arg("commands", names.empty() ? "''" : joined(names, " | ")),
                     fmt::arg("values", values), fmt::arg("many", many), fmt::arg("flags", flags));
}

std::string zsh_completion(const ProgramText& p) {
  std::string out =
      fmt::format("#compdef {0}\n# zsh completion for {0}, generated from its flags.\n", p.name);
  if (p.commands.empty()) return out + zsh_arguments(p, "") + "\n";
  out += "local curcontext=$curcontext state line ret=1\n";
  out += zsh_arguments(p, "").replace(0, 13, "_arguments -C -S");
  out += " \\\n  '1:command:((";
  for (const CommandText& c : p.commands)
    out += fmt::format("{}{}\\:\"{}\"", &c == &p.commands[0] ? "" : " ", c.name,
                       zsh_quoted(zsh_quoted(c.about)));
  out += "))' \\\n  '*::argument:->argument' && ret=0\n";
  out += "[[ $state == argument ]] && case $words[1] in\n";
  for (const CommandText& c : p.commands)
    out += fmt::format("  {})\n{} && ret=0\n    ;;\n", c.name, zsh_arguments(c, "    "));
  return out + "esac\nreturn ret\n";
}

}  // namespace tern::apps
