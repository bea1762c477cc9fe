// The version's numbers and its texts agree.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tern/tests/support/data_files.h"
#include "tern/version.h"

namespace tern::test::test_version {

TEST_CASE("version: the text is that of the numbers") {
  CHECK(kVersion == fmt::format("{}.{}.{}", kVersionMajor, kVersionMinor, kVersionPatch));
  const std::string port = read_file(TERN_SOURCE_DIR "/packaging/vcpkg/vcpkg.json");
  CHECK(port.find(fmt::format("\"version-semver\": \"{}\"", kVersion)) != std::string::npos);
}

}  // namespace tern::test::test_version
