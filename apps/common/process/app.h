// Shared by all programs of tern: errors and exit codes, out-of-memory errors, stacks, the version.
#pragma once

#include <exception>
#include <functional>
#include <new>
#include <string>

namespace tern::apps {

/// Runs `body` and turns an exception into one line "NAME: message" on standard error. Bad input or
/// flags (tern::Error) give exit code 2. Anything else gives 1: out of memory (the message says how
/// much is free), a file that cannot be written, a failed write to standard output. `silent` is for
/// ranks of mpirun other than 0: they print nothing, because their errors reach rank 0.
int run_app(const char* name, const std::function<int()>& body, bool silent = false);

/// The exit code that run_app() gives for an exception. For an error of another rank it is the code
/// of that rank.
int exit_code(const std::exception& error);

/// "0.2.0", or "0.2.0, a85e1ba" if the sources are a git repository: the output of `git describe`
/// when the build was configured.
std::string tern_version();

/// What operator new throws in the programs: a std::bad_alloc that says how many bytes were
/// requested. The operators are in heap.cpp.
class BadAlloc : public std::bad_alloc {
 public:
  explicit BadAlloc(std::size_t bytes) noexcept;
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];  // an array, because a message about missing memory must not allocate
};

}  // namespace tern::apps
