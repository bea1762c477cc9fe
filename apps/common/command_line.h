// The command line of a program: commands with their settings, and what was given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/apps/common/settings.h"

namespace tern::apps {

/// What a command line said.
class Given {
 public:
  /// `flags`: the names of each flag that was given.
  Given(std::vector<std::vector<std::string>> flags, std::string text)
      : flags_(std::move(flags)), text_(std::move(text)) {}
  /// Whether it has the flag "--lr".
  bool operator()(const std::string& flag) const;
  /// Error for every flag beside `flag` that is not one of `allowed`; `why` ends its text.
  void check_beside(const std::string& flag, const std::vector<std::string>& allowed,
                    const std::string& why) const;
  /// The whole line, as a shell takes it.
  const std::string& text() const { return text_; }

 private:
  std::vector<std::vector<std::string>> flags_;
  std::string text_;
};

/// What a program does by one name: `lm generate`.
struct Command {
  std::string name = {};   ///< empty: of a program that does only this
  std::string about = {};  ///< a sentence
  std::function<void(Settings&)> settings = {};
  /// Throws Error where flags do not go together. Rows of settings with only_if() need nothing.
  std::function<void(const Given&)> check = {};
  /// The exit code.
  std::function<int()> run = {};
  std::string examples = {};  ///< lines, each a command; of a program with one command its own
};

struct Program {
  std::string name, about;        ///< about: lines, each a paragraph
  std::vector<Command> commands;  ///< the first is done where none is named
  std::string more = {};          ///< lines that --help ends with
};

/// Reads the flags into what the settings point at and gives the command; nullptr if it asked for
/// help or the version, which is then printed. Wrong flags throw Error, which names the one that
/// was likely meant. Beside the flags of the rows there are --help and --version, and in front of
/// all others, for whoever installs the program, --print-man and --print-completion bash|zsh.
const Command* parse(const Program& program, int argc, char** argv);

/// A whole program: parses, runs, and gives the exit code (see run_app).
int run_program(const std::string& name, const std::function<Program()>& program, int argc,
                char** argv);

/// The value of a flag on a command line that is not parsed yet, for flags that decide the others'
/// defaults; `otherwise` if it is not there.
std::string value_of(const std::string& flag, int argc, char** argv,
                     const std::string& otherwise = "");
/// Whether it is there, and is not "--FLAG=false".
bool has_flag(const std::string& flag, int argc, char** argv);

/// The rows --threads and --precision. A command that has them runs with so many threads, and with
/// its matrix products in that precision.
Setting& add_threads(Settings& settings, int& threads);
Setting& add_precision(Settings& settings, std::string& precision);

}  // namespace tern::apps
