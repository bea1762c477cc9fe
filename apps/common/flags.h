// What command_line.h has of CLI11: ranges and choices with messages that say what is allowed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tern/apps/common/settings.h"

namespace tern::apps {

/// A rule for values of flags, in which 1e3 is written as 1000 where the numbers are `whole`.
/// (CLI11's own ranges read badly in --help.)
CLI::Validator number_rule(const Bounds& bounds, bool whole);
/// And one for words, which names the one that was likely meant.
CLI::Validator word_rule(const std::vector<std::string>& words);

/// Parses the command line; false if it asked for help or the version, which is then printed. Wrong
/// flags throw Error, which names the one that was likely meant. Beside the flags of `app` there is
/// --version, and in front of all others, for whoever installs the program, --print-man and
/// --print-completion bash|zsh.
bool parse_flags(CLI::App& app, int argc, char** argv);

/// Error for every flag beside `flag` that is not one of `allowed`; `why` ends its text.
void check_flags_beside(const CLI::App& app, const std::string& flag,
                        const std::vector<std::string>& allowed, const std::string& why);

}  // namespace tern::apps
