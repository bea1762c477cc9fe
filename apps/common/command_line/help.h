// Texts derived from a program's commands and settings: --help, manual page, shell completion.
#pragma once

#include <cstdint>
#include <string>

#include "tern/apps/common/command_line/command_line.h"

namespace tern::apps {

/// The settings of a command, followed by --help and --version.
struct CommandRows {
  explicit CommandRows(const Command& command);
  CommandRows(const CommandRows&) = delete;
  Settings list;
  const Setting *help, *version;

 private:
  bool unused_ = false;
};

/// The value of a flag in help texts: "N", "DIR", "f32|bf16", or NAME if there are many choices.
/// Empty for a flag without a value.
std::string value_text(const Setting& s);

/// "RUNS...": the name of a positional value.
std::string positional_text(const Setting& s);
/// "lm train [FLAGS]". `command` may be nullptr: no command.
std::string usage_text(const Program& program, const Command* command);

/// --help of a command, or of the program if `command` is nullptr or the only command.
std::string help_text(const Program& program, const Command* command, int64_t columns);
/// COLUMNS if it is set, else the terminal's width, or 80 if standard output is no terminal; at
/// least 40.
int64_t help_columns();

/// NAME.1 in roff's man macros. `version` stands in its footer.
std::string man_page(const Program& program, const std::string& version);

/// --help of a program and of each command in Markdown, one section each.
std::string help_pages(const Program& program);

/// Completion scripts: one that bash 4 or newer sources, and one for zsh's $fpath, named _NAME.
/// Each completes the words of commands that are programs of their own, too.
std::string bash_completion(const Program& program);
std::string zsh_completion(const Program& program);

}  // namespace tern::apps
