// The command line of a program: its commands and their settings, and which flags were given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/apps/common/command_line/settings.h"

namespace tern::apps {

/// The flags that a command line gave.
class Given {
 public:
  /// `flags`: for each given flag, all its names.
  Given(std::vector<std::vector<std::string>> flags, std::string text)
      : flags_(std::move(flags)), text_(std::move(text)) {}
  /// Whether a flag, such as "--lr", was given.
  bool operator()(const std::string& flag) const;
  /// Error if any flag but `flag` and those in `allowed` was given; `why` ends the message.
  void check_beside(const std::string& flag, const std::vector<std::string>& allowed,
                    const std::string& why) const;
  /// The whole line, quoted for a shell.
  const std::string& text() const { return text_; }

 private:
  std::vector<std::vector<std::string>> flags_;
  std::string text_;
};

GivenKeys given_keys(const Settings& settings, const Given& given);

struct Program;

/// One command of a program: `lm generate`.
struct Command {
  std::string name = {};   ///< empty if the program has only one command
  std::string about = {};  ///< a sentence
  std::function<void(Settings&)> settings = {};
  /// Throws Error if flags contradict each other. Settings with only_if() need no check here.
  std::function<void(const Given&)> check = {};
  /// The exit code.
  std::function<int()> run = {};
  /// Asked after check(): whether ranks of mpirun share the work. Empty: each rank does all of it.
  std::function<bool()> shares_work = {};
  /// Lines, each an example command without the program's name: "generate --model runs/book".
  std::string examples = {};
  std::string more = {};  ///< last lines of its --help
  /// The flag that a word without a flag was likely meant for: "--text", or kBareInput for commands
  /// that read standard input. Used only in the error for such a word.
  std::string bare = {};
  /// A command that is a program of its own, as `tern lm`: gives what a function says of that
  /// program. Such a command has no settings.
  std::function<std::string(const std::function<std::string(const Program&)>&)> part = {};
};
inline constexpr const char* kBareInput = "-";

struct Program {
  std::string name, about;        ///< about: lines, each a paragraph
  std::vector<Command> commands;  ///< the first one runs if the command line names none
  std::string more = {};          ///< last lines of --help
};

/// Reads a command line: sets what the settings point at, and returns the command. For --help and
/// --version, which every command has, it prints and returns nullptr. The Error of a wrong flag
/// proposes the flag that was likely meant. For packagers: --print-man, --print-help
/// (docs/commands.md) and --print-completion bash|zsh, each as the only flag.
const Command* parse(const Program& program, int argc, char** argv);

/// A whole program: parses, runs, and gives the exit code (see run_app).
int run_program(const std::string& name, const std::function<Program()>& program, int argc,
                char** argv);
/// The same for a program that keeps the values of its flags in a struct.
template <class Flags>
int run_program(const std::string& name, Program (*program)(Flags&, int, char**), int argc,
                char** argv) {
  Flags flags;
  return run_program(
      name, [&] { return program(flags, argc, argv); }, argc, argv);
}

/// The value of a flag on a command line that is not parsed yet, or `otherwise` if it is absent.
/// For flags that choose the defaults of other flags.
std::string value_of(const std::string& flag, int argc, char** argv,
                     const std::string& otherwise = "");
/// Whether the flag is present and is not "--FLAG=false".
bool has_flag(const std::string& flag, int argc, char** argv);

/// Add the rows --threads, --precision and --matmul. A command that has them runs with that number
/// of threads, and computes matrix products in that precision with that backend.
Setting& add_threads(Settings& settings, int& threads);
Setting& add_precision(Settings& settings, std::string& precision);
Setting& add_matmul(Settings& settings, std::string& matmul, const std::string& precision);
/// All three rows, for a command that uses a trained model.
void add_computing(Settings& settings, std::string& precision, std::string& matmul, int& threads);
/// The row --opset of a command that writes a model as ONNX.
Setting& add_opset(Settings& settings, int& opset);

}  // namespace tern::apps
