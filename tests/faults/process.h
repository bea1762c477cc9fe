// Runs programs through a shell, optionally with a fault in their file operations (shim.cpp).
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"

namespace tern::test {

namespace fs = std::filesystem;

struct Ended {
  int code;  ///< 128 + the signal number, as in a shell
  std::string out, err;
};

/// A temporary folder in which shell commands run.
class Shell {
 public:
  Shell() {
    // Input for the programs: a text, and black pictures in CIFAR-10's files.
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("the bird sees {} trees\n", i % 7);
    write_file(folder_ / "text", text);
    fs::create_directory(folder_ / "data");
    for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"})
      write_file(folder_ / fmt::format("data/{}.bin", name), std::string(4 * 3073, '\0'));
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  /// Runs a line of sh in the folder, with the programs in PATH. The line may redirect standard
  /// output itself.
  Ended run(const std::string& line) const {
    const std::string whole =
        fmt::format("cd '{}' && export OMP_NUM_THREADS=1 PATH='" TERN_BINARY_DIR
                    "/apps':\"$PATH\" && {{ {}\n}} > .out 2> .err",
                    folder_.path(), line);
    const int status = std::system(whole.c_str());
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return {code, read_file(folder_ / ".out"), read_file(folder_ / ".err")};
  }

 private:
  TempDir folder_;
};

/// The prefix of a command that makes shim.cpp break its operations below a folder.
inline std::string with_fault(const Shell& shell, const std::string& folder, const std::string& how,
                              size_t at) {
  return fmt::format("FAULT_UNDER='{}' FAULT_HOW={} FAULT_AT={} LD_PRELOAD=" FAULT_SHIM " ",
                     shell / folder, how, at);
}

struct Operation {
  std::string kind, name;  ///< "rename", "config.json"; no name if the operation uses a descriptor
};

/// The operations of a program below a folder, in order; the first is operation 1.
inline std::vector<Operation> operations(const Shell& shell, const std::string& folder,
                                         const std::string& command) {
  const std::string line =
      fmt::format("rm -f log; FAULT_LOG=log {}{}", with_fault(shell, folder, "none", 0), command);
  REQUIRE(shell.run(line).code == 0);
  std::vector<Operation> all;
  std::istringstream in(read_file(shell / "log"));
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    int number = 0;
    Operation& o = all.emplace_back();
    words >> number >> o.kind >> o.name;
  }
  return all;
}

}  // namespace tern::test
