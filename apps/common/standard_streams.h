// Standard input and output as they may be: closed, full, a folder. What a program prints goes
// through here or through train::say, and both show control characters instead of sending them:
// names of files, lines of them and what a model wrote command no terminal. A program's data (the
// translations of `translate run`, the text of `lm generate`) is a stream of bytes for the next
// program, which gets them unchanged; only a terminal gets them cleaned.
#pragma once

#include <cstdint>
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

/// Puts /dev/null in the places of standard streams that are closed: else the next file that is
/// opened takes the number, and messages are written into it. StreamError if standard output is.
void fill_standard_streams();

/// std::cin. StreamError if it is closed or a folder.
std::istream& standard_input();
/// After its end: StreamError if that was not the end, but a failure to read.
void check_standard_input();

/// StreamError if what was written to `out` (or, for a program that prints by other means, to
/// standard output) did not arrive.
void check_written(std::ostream& out);
void check_standard_output();

/// The words of a line in lines of at most so many columns, each with a newline. The second and
/// later ones begin `indent` columns further right than the first. A word that is longer than a
/// line stays whole.
std::string wrapped(const std::string& line, int64_t columns, size_t indent = 0);

/// A line on standard error, whatever becomes of it. A terminal gets lines that fit its width, but
/// for those of the text that begin with two spaces: commands that are to be copied.
void complain(const std::string& line);
/// Text on standard output. StreamError if it is known by now that it does not arrive.
void print(std::string_view text);
/// What standard output gets of a program's data: `text` itself, or cleaned if it is a terminal.
std::string for_standard_output(std::string_view text);

}  // namespace tern::apps
