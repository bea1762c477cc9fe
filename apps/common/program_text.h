// The flags of a program as data, and what is generated from them: completion for shells and the
// manual page.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tern::apps {

/// A flag, or an argument without one.
struct FlagText {
  std::vector<std::string> names = {};  ///< "-h", "--help"; of an argument its name
  std::string value = {};               ///< "N", "FILE", "gpt|llama"; empty: the flag takes none
  std::string by_default = {};          ///< empty: nothing to say
  std::string about = {};
  bool positional = false, required = false;
  bool many = false;  ///< several values may follow it

  /// The words that its value may be: those of "gpt|llama". None for "DIR|TAR.GZ".
  std::vector<std::string> choices() const;
  bool takes_folder() const;
  bool takes_file() const;
};

struct CommandText {
  std::string name, about;
  std::vector<FlagText> flags;
};

struct ProgramText : CommandText {
  std::vector<CommandText> commands;
};

/// What `app` would say in --help; hidden flags are left out.
ProgramText program_text(const CLI::App& app);

/// A script to be sourced by bash 4 or newer, and one to be found in zsh's $fpath as _NAME.
std::string bash_completion(const ProgramText& program);
std::string zsh_completion(const ProgramText& program);

/// NAME.1 in roff's man macros. `version` stands in its footer.
std::string man_page(const ProgramText& program, const std::string& version);

}  // namespace tern::apps
