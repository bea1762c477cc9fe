// Puts the name of a file before errors in its content. Inside of tern only.
#pragma once

#include <string>

#include "tern/core/base/error.h"

namespace tern {

/// Calls use(), which reads the file. An Error becomes an IoError that begins with the file's name.
/// An IoError passes unchanged: it names the file already.
template <class Use>
auto reading(const std::string& file, Use&& use) {
  try {
    return use();
  } catch (const IoError&) {
    throw;
  } catch (const Error& e) {
    fail_io(file + ": " + e.what());
  }
}

}  // namespace tern
