// The flags of a program as its main() reads them, for tests of command lines.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/command_line/command_line.h"

namespace tern::test {

/// The flags that `words` set, behind the program's name. `program` describes its command line.
template <class Flags>
Flags parsed(apps::Program (*program)(Flags&, int, char**), const std::string& name,
             std::vector<std::string> words) {
  words.insert(words.begin(), name);
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  const auto argc = static_cast<int>(argv.size());
  Flags flags;
  apps::parse(program(flags, argc, argv.data()), argc, argv.data());
  return flags;
}

}  // namespace tern::test
