// Keeps how the process was started, which main() sets before it starts threads.
#include "tern/apps/common/command_line/started.h"

#include <algorithm>

#include "tern/core/base/terminal_text.h"

namespace tern::apps {
namespace {

struct Start {
  std::string program = {}, called = {};  // the program that runs, and the words that started it
  std::string before = {};                // words in front of any program: "./run ", "tern "
  std::string folder = {};                // of the programs: "build/apps/"
  bool inside_tern = false;
};
Start start;

// The name of a program as a command of `tern`: train-cifar.
std::string command_name(std::string program) {
  std::replace(program.begin(), program.end(), '_', '-');
  return program;
}

}  // namespace

void set_started(const std::string& called, const std::string& program) {
  if (start.inside_tern) return;
  if (called.ends_with("/run " + program)) {
    const std::string script = called.substr(0, called.size() - program.size() - 1);
    start.before = shell_word(script) + " ";
    start.called = start.before + program;
  } else {
    start.folder = called.substr(0, called.rfind('/') + 1);
    start.called = shell_word(called);
  }
  start.program = program;
}

void set_started_inside_tern() {
  start = {.before = as_started("tern") + " ", .inside_tern = true};
}

std::string title_of(const std::string& program) {
  return start.inside_tern ? "tern " + command_name(program) : program;
}

std::string as_started(const std::string& program) {
  if (program == start.program) return start.called;
  if (start.before.empty()) return shell_word(start.folder + program);
  return start.before + (start.inside_tern ? command_name(program) : program);
}

}  // namespace tern::apps
