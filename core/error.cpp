#include "tern/core/base/error.h"

namespace tern {

void fail(const std::string& message) { throw Error(message); }

void fail_unhandled(const char* type, int value) {
  fail(
      fmt::format("{}: the value {} is none that this code was written for; add it to the switch "
                  "that the compiler warns about",
                  type, value));
}

void fail_io(const std::string& message) { throw IoError(message); }

}  // namespace tern
