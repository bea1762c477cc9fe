// Standard input and output, which may be closed, full or a folder. What a program prints goes
// through here or through training::say. Both show control characters instead of sending them, so
// that no name of a file, no line of it and no text of a model can command a terminal. A program's
// data (the translations of `translate run`, the text of `lm generate`) is a stream of bytes for
// the next program, which gets it unchanged; only a terminal gets it cleaned.
//
// Standard output carries results alone: what a command was started for (docs/architecture.md has
// the list). All else goes to standard error.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tern::apps {

/// Standard input cannot be read, or standard output not written.
class StreamError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens /dev/null for each standard stream that is closed: else the next file that is opened takes
/// its number, and messages are written into that file. StreamError if standard output is closed.
void fill_standard_streams();

/// std::cin. StreamError if it is closed or a folder.
std::istream& standard_input();
/// To be called after the last line: StreamError if reading failed before the end.
void check_standard_input();

/// StreamError if what was written to `out` (or, for a program that prints by other means, to
/// standard output) did not arrive.
void check_written(std::ostream& out);
void check_standard_output();

/// The words of a line in lines of at most so many columns, each with a newline. The second and
/// later ones begin `indent` columns further right than the first. A word that is longer than a
/// line stays whole.
std::string wrapped(const std::string& line, int64_t columns, size_t indent = 0);

/// Where a training says how it goes: standard error, as standard output carries results alone. On
/// a rank of mpirun that is not the first, standard output, which run_app() has closed there.
std::FILE* log_stream();
/// Prints a line on standard error; a failure is ignored. A terminal gets lines that fit its width,
/// except those that begin with two spaces: commands to be copied.
void complain(const std::string& line);
/// Prints text on standard output. StreamError if it is known by now that it does not arrive.
void print(std::string_view text);
/// A program's data as standard output gets it: `text` itself, or cleaned for a terminal.
std::string for_standard_output(std::string_view text);

}  // namespace tern::apps
