// Adds a file's name to errors about its contents. Inside of tern only.
#pragma once

#include <string>

#include "tern/core/base/error.h"

namespace tern {

/// Calls use(). Turns its Errors into IoErrors that begin with the file's name. IoErrors pass
/// unchanged: they name a file already.
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
