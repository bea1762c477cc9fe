// Standard input and output, which may be closed, full or a folder. Programs print through here or
// through training::say. Both replace control characters by visible ones, so that no file name,
// file content or model output can control a terminal. A program's data (the translations of
// `translate run`, the text of `lm generate`) goes unchanged to files and pipes; only a terminal
// gets it cleaned.
//
// Standard output carries only results: what a command was started for (docs/architecture.md has
// the list). Everything else goes to standard error.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tern::apps {

/// Standard input cannot be read, or standard output cannot be written.
class StreamError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens /dev/null for each closed standard stream. Otherwise the next file to be opened would get
/// its number, and messages would go into that file. StreamError if standard output is closed.
void fill_standard_streams();

/// std::cin. StreamError if it is closed or a folder.
std::istream& standard_input();
/// Call this after the last line. StreamError if reading failed before the end.
void check_standard_input();

/// StreamError if writing to `out` failed; or writing to stdout, for programs that print with C
/// functions.
void check_written(std::ostream& out);
void check_standard_output();

/// Wraps a line at `columns`; each line ends with a newline. Lines after the first begin `indent`
/// columns further right. A word that is longer than a line stays whole.
std::string wrapped(const std::string& line, int64_t columns, size_t indent = 0);

/// The stream for the progress of a training: standard error, because standard output carries only
/// results. On ranks of mpirun other than 0 it is standard output, which run_app() discards there.
std::FILE* log_stream();
/// Prints a line on standard error and ignores failures. For a terminal, lines are wrapped to its
/// width, except lines that begin with two spaces: commands to be copied.
void complain(const std::string& line);
/// Prints text on standard output. StreamError if the write fails at once; check_standard_output()
/// finds later failures.
void print(std::string_view text);
/// A program's data for standard output: `text` unchanged, or cleaned if that is a terminal.
std::string for_standard_output(std::string_view text);

}  // namespace tern::apps
