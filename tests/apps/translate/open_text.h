// A text that can be read from a file descriptor, as standard input.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "tern/core/base/error.h"

namespace tern::test {

class OpenText {
 public:
  explicit OpenText(const std::string& text) : file_(std::tmpfile(), std::fclose) {
    check(file_ && std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size(),
          "a temporary file cannot be written");
    std::rewind(file_.get());
  }
  int descriptor() const { return fileno(file_.get()); }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace tern::test
