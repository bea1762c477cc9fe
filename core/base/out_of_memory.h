// Where memory ends.
#pragma once

#include <string>

#include "tern/core/base/error.h"

namespace tern {

/// The system gives no more memory. The text says how many bytes were asked for and, if it is a
/// tensor's, its type and shape. (A memory cap of the program's own is an Error like others.)
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws it, with the place in the user's model in front as fail() does.
[[noreturn]] void fail_memory(const std::string& message);

}  // namespace tern
