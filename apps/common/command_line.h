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
  /// Error if another flag than `flag` and those of `allowed` was given; `why` ends the message.
  void check_beside(const std::string& flag, const std::vector<std::string>& allowed,
                    const std::string& why) const;
  /// The whole line, as a shell takes it.
  const std::string& text() const { return text_; }

 private:
  std::vector<std::vector<std::string>> flags_;
  std::string text_;
};

/// One command of a program: `lm generate`.
struct Command {
  std::string name = {};   ///< empty if the program has only this one
  std::string about = {};  ///< a sentence
  std::function<void(Settings&)> settings = {};
  /// Throws Error where flags do not go together. Rows of settings with only_if() need nothing.
  std::function<void(const Given&)> check = {};
  /// The exit code.
  std::function<int()> run = {};
  std::string examples = {};  ///< lines, each a command that a user may type
  std::string more = {};      ///< lines that its --help ends with
  /// What a word without a flag is likely for: "--text", or kBareInput for the commands that read
  /// standard input. It is in the error of such a word alone.
  std::string bare = {};
};
inline constexpr const char* kBareInput = "-";

struct Program {
  std::string name, about;        ///< about: lines, each a paragraph
  std::vector<Command> commands;  ///< without a name on the command line the first one runs
  std::string more = {};          ///< lines that --help ends with
};

/// Reads a command line: sets what the settings point at, and returns the command. Where it asks
/// for help or the version, prints that and returns nullptr. The Error of a wrong flag names the
/// one that was likely meant. Every command has --help and --version. Whoever installs a program
/// can call it with --print-man, --print-help (docs/commands.md) or --print-completion bash|zsh
/// alone.
const Command* parse(const Program& program, int argc, char** argv);

/// A whole program: parses, runs, and gives the exit code (see run_app).
int run_program(const std::string& name, const std::function<Program()>& program, int argc,
                char** argv);

/// The value of a flag on a command line that is not parsed yet, for flags that choose the defaults
/// of others; `otherwise` if the flag is not there.
std::string value_of(const std::string& flag, int argc, char** argv,
                     const std::string& otherwise = "");
/// Whether it is there, and is not "--FLAG=false".
bool has_flag(const std::string& flag, int argc, char** argv);

/// The rows --threads, --precision and --matmul. A command that has them runs with so many threads,
/// and with its matrix products in that precision and by that backend.
Setting& add_threads(Settings& settings, int& threads);
Setting& add_precision(Settings& settings, std::string& precision);
Setting& add_matmul(Settings& settings, std::string& matmul, const std::string& precision);

}  // namespace tern::apps
