#include "tern/train/detail/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tern::train {

void put(const std::string& text) {
  const bool lost = std::ferror(stdout) != 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (lost || std::ferror(stdout) == 0) return;
  const std::string why = std::strerror(errno);
  std::fputs(("standard output cannot be written: " + why + "; going on without it\n").c_str(),
             stderr);
}

}  // namespace tern::train
