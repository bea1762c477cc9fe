// What a program says of its commands and flags: --help, the manual page, completion in shells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/command_line.h"

namespace tern::apps {

/// The settings of a command, and behind them --help and --version.
struct CommandRows {
  explicit CommandRows(const Command& command);
  CommandRows(const CommandRows&) = delete;
  Settings list;
  const Setting *help, *version;

 private:
  bool unused_ = false;
};

/// "N", "DIR", "f32|bf16", or NAME for one of many words. Empty for a flag without a value.
std::string value_text(const Setting& s);

/// "RUNS..." of a value that has no flag.
std::string positional_text(const Setting& s);
/// "lm train [FLAGS]". `command` is nullptr where no command is meant.
std::string usage_text(const Program& program, const Command* command);

/// --help of a command; of the program if that is nullptr, or where the program has no others.
std::string help_text(const Program& program, const Command* command, int64_t columns);
/// COLUMNS if it is set, else those of the terminal; 80 where standard output is none, 40 at least.
int64_t help_columns();

/// NAME.1 in roff's man macros. `version` stands in its footer.
std::string man_page(const Program& program, const std::string& version);

/// --help of a program and of each command, in Markdown: a section each.
std::string help_pages(const Program& program);

/// A script to be sourced by bash 4 or newer, and one to be found in zsh's $fpath as _NAME.
std::string bash_completion(const Program& program);
std::string zsh_completion(const Program& program);

}  // namespace tern::apps
