// Errors of what a file holds, with the file's name. Inside of tern only.
#pragma once

#include <string>

#include "tern/core/base/error.h"

namespace tern {

/// Calls use(). Its errors become IoErrors that begin with the name of the file that it reads;
/// IoErrors name a file already.
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
