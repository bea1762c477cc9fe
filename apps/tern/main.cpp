// tern: all programs as commands of one, the form that is installed; compares runs; see --help.
#include <algorithm>
#include <string_view>
#include <vector>

#include "tern/apps/common/command_line/help.h"
#include "tern/apps/common/command_line/started.h"
#include "tern/apps/common/process/standard_streams.h"
#include "tern/apps/lm/program.h"
#include "tern/apps/ntm/program.h"
#include "tern/apps/tern/comparison.h"
#include "tern/apps/train_cifar/program.h"
#include "tern/apps/translate/program.h"

namespace tern::apps::program {
namespace {

// A program that is a command of `tern`, and how to run it.
struct Part {
  Command command;
  std::function<int(int, char**)> run;
};

// The first line of a text, after `before`.
std::string first_line(const std::string& text, const std::string& before = "") {
  return before + text.substr(0, text.find('\n'));
}

template <class Flags>
Part part(const std::string& command, const std::string& name,
          Program (*make)(Flags&, int, char**)) {
  const auto say = [make](const std::function<std::string(const Program&)>& of) {
    Flags flags;
    return of(make(flags, 0, nullptr));
  };
  return {{.name = command,
           .about = say([](const Program& p) { return first_line(p.about); }),
           .examples = say(
               [&](const Program& p) { return first_line(p.commands[0].examples, command + " "); }),
           .part = say},
          [=](int argc, char** argv) { return run_program(name, make, argc, argv); }};
}

int run_tern(int argc, char** argv) {
  set_started(argv[0], "tern");
  const std::vector<Part> parts = {part("train-cifar", "train_cifar", train_cifar::cifar_program),
                                   part("translate", "translate", translate::translate_program),
                                   part("lm", "lm", lm::lm_program),
                                   part("ntm", "ntm", ntm::ntm_program)};
  ReportFlags flags;
  Program program{"tern",
                  "Deep learning on the CPU: trains models of pictures, translations and texts, "
                  "uses them, and compares their runs.",
                  {}};
  for (const Part& p : parts) program.commands.push_back(p.command);
  program.commands.push_back(report_command(flags));

  std::vector<char*> words(argv, argv + argc);
  const auto named = [&](const Command& c) { return words.size() > 1 && c.name == words[1]; };
  // The names that the same programs have in a clone: ./run train_cifar.
  std::string plain = argc > 1 ? argv[1] : "";
  std::ranges::replace(plain, '_', '-');
  if (argc > 1 &&
      std::ranges::any_of(program.commands, [&](const Command& c) { return c.name == plain; }))
    words[1] = plain.data();
  char help[] = "--help";
  if (argc > 1 && argv[1] == std::string_view("help")) {  // tern help lm train
    words.erase(words.begin() + 1);
    if (argc == 2 || std::ranges::any_of(program.commands, named)) words.push_back(help);
  }
  const auto count = static_cast<int>(words.size());
  if (count == 1) {
    complain(help_text(program, nullptr, help_columns()));
    return 2;
  }
  for (const Part& p : parts) {
    if (!named(p.command)) continue;
    set_started_inside_tern();
    return p.run(count - 1, words.data() + 1);
  }
  return run_program(
      "tern", [&] { return program; }, count, words.data());
}

}  // namespace
}  // namespace tern::apps::program

int main(int argc, char** argv) { return tern::apps::program::run_tern(argc, argv); }
