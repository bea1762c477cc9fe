// A stream that is read after a program has written to it.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace tern::test {

class TemporaryStream {
 public:
  std::FILE* get() const { return file_.get(); }
  /// All that was written.
  std::string text() const {
    std::string out;
    std::rewind(get());
    for (int c; (c = std::fgetc(get())) != EOF;) out += static_cast<char>(c);
    return out;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), std::fclose};
};

}  // namespace tern::test
