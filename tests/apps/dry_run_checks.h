// Checks of --dry-run that every training program passes.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>

#include "tern/tests/support/data_files.h"

namespace tern::test {

/// Calls fn() in an empty folder, which must stay empty.
template <class F>
void check_writes_nothing(F&& fn) {
  const TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  fn();
  CHECK(std::filesystem::is_empty(dir.path()));
  std::filesystem::current_path(before);
}

}  // namespace tern::test
