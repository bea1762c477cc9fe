// What a user likely meant who typed a word that a program does not know: a misspelt flag, the name
// that other programs have for it, a flag of another command, a word without its flag.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/apps/common/command_line.h"

namespace tern::apps {

/// A word of a command line that no row of the settings took.
struct UnknownWord {
  size_t at = 0;                   ///< its place in the line
  const Setting* after = nullptr;  ///< the row whose values stand directly before it
  bool only_values = false;        ///< it stands behind "--", where no word is a flag
};

/// Whether a word begins with a dash, and is more than that.
bool is_dashed(const std::string& word);

/// "; did you mean bf16?" of a value that is none of those known, such as fp16; or nothing.
std::string did_you_mean_value(const std::string& word, const std::vector<std::string>& known);

/// The error of such a word of `line`, which ends with a proposal where there is one. `command` is
/// nullptr if the line names none; `list` are its rows, and `given` says which of them the line
/// has.
std::string about_unknown(const Program& program, const Command* command, const Settings& list,
                          const std::vector<std::string>& line, const UnknownWord& unknown,
                          const std::function<bool(const Setting&)>& given);

}  // namespace tern::apps
