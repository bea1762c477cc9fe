// Writes text and reports the first failure of standard output, once.
#include "tern/train/detail/terminal.h"

#include <cerrno>
#include <cstring>

namespace tern::training {

void put(const std::string& text, std::FILE* output) {
  const bool lost = std::ferror(output) != 0;
  std::fwrite(text.data(), 1, text.size(), output);
  std::fflush(output);
  if (lost || std::ferror(output) == 0 || output != stdout) return;
  const std::string why = std::strerror(errno);
  std::fputs(("standard output cannot be written: " + why + "; the program continues without it\n")
                 .c_str(),
             stderr);
}

}  // namespace tern::training
