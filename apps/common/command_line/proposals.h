// Proposes what a user likely meant by an unknown word: a misspelt flag, another program's name for
// a flag, a flag of another command, a value without its flag.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/apps/common/command_line/command_line.h"

namespace tern::apps {

/// A word of a command line that no row of the settings took.
struct UnknownWord {
  size_t at = 0;                   ///< its index in the line
  const Setting* after = nullptr;  ///< the setting whose values precede it directly
  bool only_values = false;        ///< it follows "--", after which no word is a flag
};

/// Whether a word begins with a dash and has more characters.
bool is_dashed(const std::string& word);

/// "; did you mean bf16?" for an unknown value such as fp16; empty if nothing is similar.
std::string did_you_mean_value(const std::string& word, const std::vector<std::string>& known);

/// The error message for an unknown word of `line`, with a proposal if there is one. `command` is
/// nullptr if the line names none. `list` holds its settings, and `given` says which of them the
/// line has.
std::string about_unknown(const Program& program, const Command* command, const Settings& list,
                          const std::vector<std::string>& line, const UnknownWord& unknown,
                          const std::function<bool(const Setting&)>& given);

}  // namespace tern::apps
