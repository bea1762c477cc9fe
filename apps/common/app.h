// What every program of tern does the same way: errors and exit codes, memory, stacks, the version.
#pragma once

#include <exception>
#include <functional>
#include <new>
#include <string>

namespace tern::apps {

/// Runs `body` and turns what it throws into one line "NAME: message" on standard error. Bad input
/// or flags (tern::Error) give exit code 2; anything else 1: memory that is not there (with how
/// much is free), files that cannot be written, standard output that did not arrive. One that is
/// `silent` writes no line, and nothing to standard output: a rank of mpirun but the first, whose
/// errors reach that.
int run_app(const char* name, const std::function<int()>& body, bool silent = false);

/// The exit code of what was thrown, as run_app() gives it; on another rank, what that rank gives.
int exit_code(const std::exception& error);

/// "0.1.0", or where the sources are a git repository "0.1.0, a85e1ba": as `git describe` said when
/// the build was configured.
std::string tern_version();

/// What operator new throws in the programs: as std::bad_alloc, and it says how much was asked for.
/// (The operators that do it are in heap.cpp.)
class BadAlloc : public std::bad_alloc {
 public:
  explicit BadAlloc(std::size_t bytes) noexcept;
  const char* what() const noexcept override { return text_; }

 private:
  char text_[64];  // no memory is asked for to say that there is none
};

}  // namespace tern::apps
