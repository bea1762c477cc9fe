// Runs a test case in a new process, for settings that a process reads only once or before main().
#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace tern::test {

/// The output of one case of this test program, run with these environment variables ("A=1 B=2").
/// The case has doctest::skip(), so that other runs leave it out.
inline std::string printed_by(const std::string& test_case, const std::string& variables = "") {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::FILE* const pipe =
      popen(fmt::format("env -u OMP_NUM_THREADS -u OMP_PLACES -u OMP_PROC_BIND {} '{}' --no-skip "
                        "--minimal --test-case='{}' 2>/dev/null",
                        variables, program, test_case)
                .c_str(),
            "r");
  REQUIRE(pipe);
  std::string printed;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    printed.append(buffer.data(), n);
  CHECK(pclose(pipe) == 0);
  return printed;
}

/// The processors that this thread may use. A new process may use the same ones.
inline std::vector<int> processors_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  return processors;
}

}  // namespace tern::test
