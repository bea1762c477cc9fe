// Runs programs under mpirun and collects their output, for the tests.
#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <string>

#include "tern/tests/support/data_files.h"

namespace tern::test {

struct ProgramResult {
  int code;
  std::string output;    // standard output and standard error, without the warnings
  std::string warnings;  // lines that begin with "tern: "
};

inline ProgramResult run_program(const std::string& command) {
  ProgramResult result{};
  std::FILE* pipe = popen(("( " + command + " ) 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), n);
  for (size_t line = 0; line < result.output.size();) {
    const size_t end = std::min(result.output.find('\n', line), result.output.size() - 1) + 1;
    if (result.output.compare(line, 6, "tern: ") == 0) {
      result.warnings += result.output.substr(line, end - line);
      result.output.erase(line, end - line);
    } else {
      line = end;
    }
  }
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// Whether mpirun itself crashed while it ended a job. Open MPI 4.1.4 does so in
/// PMIx_server_finalize for one in some hundred jobs that fail. Its exit code then says nothing
/// about the ranks.
inline bool mpirun_crashed(const ProgramResult& r) {
  return r.code == 128 + SIGSEGV && r.output.find("PMIx_server_finalize") != r.output.npos;
}

/// Runs `ranks` processes, even if there are fewer cores, and even as root, since a container may
/// have no other user. `prefix` comes before mpirun's name, `options` after it. If ranks run for
/// five minutes, they hang: the test fails and shows their output. A job whose mpirun crashed is
/// repeated once.
inline ProgramResult run_ranks(int ranks, const std::string& program, const std::string& arguments,
                               const std::string& prefix = "", const std::string& options = "") {
  const std::string command = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
      "timeout -v 300 {} {} {} -n {} {} {}",
      prefix, MPIRUN, options, ranks, program, arguments);
  ProgramResult r = run_program(command);
  if (mpirun_crashed(r)) r = run_program(command);
  INFO(ranks, " ranks of ", program, " ", arguments, ":\n", r.warnings, r.output);
  REQUIRE(r.output.find("timeout: sending signal") == r.output.npos);
  return r;
}

/// Checks that a job failed, with this exit code unless it is 0, and that a rank printed `words`.
inline void check_fails(const ProgramResult& r, const std::string& words, int code = 0) {
  CAPTURE(r.output);
  CHECK((code == 0 ? r.code != 0 : r.code == code));
  CHECK_MESSAGE(contains(r.output, words), words);
}

}  // namespace tern::test
