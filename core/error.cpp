#include "tern/core/error.h"

namespace tern {

void fail(const std::string& message) { throw Error(message); }

void fail_io(const std::string& message) { throw IoError(message); }

}  // namespace tern
