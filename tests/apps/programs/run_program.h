// Starts programs with pipes or in a terminal of a given width, and collects their output.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tern/tests/support/errors.h"

namespace tern::test {

using Words = std::vector<std::string>;

inline Words with(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Ran {
  int code = -1;
  std::string out, err;  ///< in a terminal all is in `out`, with "\n" as line end
};

struct RunOptions {
  int columns = 0;  ///< width of the terminal; 0: pipes
  std::string folder = ".";
  std::string typed = {};  ///< input, typed into the terminal
  std::map<std::string, std::string> environment = {};
};

namespace detail {

[[noreturn]] inline void become(const std::vector<std::string>& words, const RunOptions& o) {
  // A common terminal, without the settings of the person who runs the tests.
  ::setenv("TERM", "xterm-256color", 1);
  ::unsetenv("NO_COLOR");
  for (const auto& [name, value] : o.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  if (::chdir(o.folder.c_str()) == 0) ::execvp(argv[0], argv.data());
  ::_exit(127);
}

// Reads both descriptors until they are closed.
inline void drain(int first, std::string& a, int second, std::string& b) {
  pollfd fds[] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
  std::string* texts[] = {&a, &b};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) texts[i]->append(buffer, static_cast<size_t>(n));
      if (n <= 0) fds[i].fd = -1;  // a closed terminal gives EIO
    }
  }
}

inline int exit_code(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline Ran run_in_terminal(const std::vector<std::string>& words, const RunOptions& o) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(o.columns);
  size.ws_row = 24;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  check(child >= 0, "forkpty failed");
  if (child == 0) become(words, o);
  if (!o.typed.empty())
    check(::write(terminal, o.typed.data(), o.typed.size()) == std::ssize(o.typed), "write failed");
  Ran ran;
  std::string none;
  drain(terminal, ran.out, -1, none);
  ::close(terminal);
  ran.code = exit_code(child);
  for (size_t at; (at = ran.out.find("\r\n")) != ran.out.npos;) ran.out.erase(at, 1);
  return ran;
}

}  // namespace detail

/// Commands run in this folder, and PATH begins with tern's programs.
inline RunOptions with_programs(const std::string& folder) {
  const char* const path = std::getenv("PATH");
  return {.folder = folder,
          .environment = {{"PATH", TERN_BINARY_DIR "/apps:" + std::string(path ? path : "")}}};
}

/// `words`: a program of PATH or its path, then its arguments.
inline Ran run_words(const std::vector<std::string>& words, const RunOptions& o = {}) {
  if (o.columns > 0) return detail::run_in_terminal(words, o);
  int out[2], err[2];
  check(::pipe(out) == 0 && ::pipe(err) == 0, "pipe failed");
  const pid_t child = ::fork();
  check(child >= 0, "fork failed");
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    for (int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
    detail::become(words, o);
  }
  ::close(out[1]);
  ::close(err[1]);
  Ran ran;
  detail::drain(out[0], ran.out, err[0], ran.err);
  ::close(out[0]);
  ::close(err[0]);
  ran.code = detail::exit_code(child);
  return ran;
}

/// Runs one of tern's programs.
inline Ran run_program(const std::string& name, std::vector<std::string> arguments,
                       const RunOptions& o = {}) {
  arguments.insert(arguments.begin(), std::string(TERN_BINARY_DIR "/apps/") + name);
  return run_words(arguments, o);
}

/// The rows written on a terminal, including those that were overwritten later.
inline std::vector<std::string> rows(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
    std::string row = text.substr(at, end - at);
    if (row.starts_with("\x1b[K")) row.erase(0, 3);
    if (!row.empty()) out.push_back(row);
    at = end + 1;
  }
  return out;
}

/// Counts the characters of UTF-8 text.
inline int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace tern::test
