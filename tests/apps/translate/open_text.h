// A text as a file descriptor, in place of standard input.
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
