// The error for failed allocations.
#pragma once

#include <string>

#include "tern/core/base/error.h"

namespace tern {

/// The system has no more memory. The text gives the number of bytes and, for a tensor, its type
/// and shape. (A memory cap set by the program throws a plain Error.)
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Throws OutOfMemory. The text begins with the place in the user's model, as in fail().
[[noreturn]] void fail_memory(const std::string& message);

}  // namespace tern
