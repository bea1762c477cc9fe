// Checks that standard streams are open and that writes succeed, wraps lines, and prints messages.
#include "tern/apps/common/process/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>

#include "tern/core/base/terminal_text.h"
#include "tern/dist/world.h"
#include "tern/train/progress.h"

namespace tern::apps {
namespace {

// The width of UTF-8 text in columns, one per code point.
int64_t width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

// Opens /dev/null only for writing, so that reading standard input fails instead of giving an empty
// text.
void fill(int fd) {
  const int null = ::open("/dev/null", O_WRONLY);
  if (null < 0 || null == fd) return;
  ::dup2(null, fd);
  ::close(null);
}

[[noreturn]] void fail_output(int error) {
  throw StreamError(fmt::format("standard output cannot be written{}{}", error ? ": " : "",
                                error ? std::strerror(error) : ""));
}

}  // namespace

void fill_standard_streams() {
  const bool output = is_open(STDOUT_FILENO);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (!is_open(fd)) fill(fd);
  if (!output)
    throw StreamError("standard output is closed; to discard the output, give > /dev/null");
}

std::istream& standard_input() {
  struct stat info = {};
  const bool readable =
      ::fstat(STDIN_FILENO, &info) == 0 && (::fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) != O_WRONLY;
  if (!readable)
    throw StreamError("standard input is closed; give the text by a pipe or by < FILE");
  if (S_ISDIR(info.st_mode))
    throw StreamError("standard input is a folder; give a file in it: < FOLDER/FILE");
  return std::cin;
}

void check_standard_input() {
  if (!std::cin.bad() && std::ferror(stdin) == 0) return;
  throw StreamError("standard input cannot be read to its end");
}

void check_written(std::ostream& out) {
  errno = 0;
  out.flush();
  if (!out.good()) fail_output(errno);
}

void check_standard_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (!flushed || std::ferror(stdout) != 0) fail_output(flushed ? 0 : error);
}

std::string wrapped(const std::string& line, int64_t columns, size_t indent) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  std::string out, row = line.substr(0, first);
  bool empty = true;
  for (size_t at = first; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (!empty && width(row) + 1 + width(word) > columns) {
      out += row + "\n";
      row = std::string(first + indent, ' ');
      empty = true;
    }
    row += (empty ? "" : " ") + word;
    empty = false;
    at = end + 1;
  }
  return out + row + "\n";
}

std::FILE* log_stream() { return dist::launched_rank() > 0 ? stdout : stderr; }

void complain(const std::string& line) {
  const int64_t columns = training::terminal_columns(stderr);
  std::string text;
  std::istringstream lines(terminal_text(line));
  for (std::string part; std::getline(lines, part);)
    text += columns > 0 && !part.starts_with("  ") ? wrapped(part, columns) : part + "\n";
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

void print(std::string_view text) {
  const std::string shown = terminal_text(text);
  errno = 0;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) < shown.size()) fail_output(errno);
}

std::string for_standard_output(std::string_view text) {
  return ::isatty(STDOUT_FILENO) != 0 ? terminal_text(text) : std::string(text);
}

}  // namespace tern::apps
