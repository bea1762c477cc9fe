// train --dry-run of every program writes nothing, and cannot resume.
#include <doctest/doctest.h>

#include "tern/core/base/error.h"
#include "tern/tests/apps/training/in_process.h"

namespace tern::test::test_dry_run {

TEST_CASE("dry run: no program writes anything") {
  for (const Training& t : all_trainings()) {
    CAPTURE(t.name);
    const DataFolder dir;
    const TempDir empty;  // the current folder; the data lie in another
    std::string line = t.start() + t.held_out + " --dry-run";
    for (const std::string flag : {" --text ", " --data "})
      if (const size_t at = line.find(flag); at != line.npos)
        line.insert(at + flag.size(), dir.path() + "/");
    std::filesystem::current_path(empty.path());
    CHECK(run_line(line + " --out run") == 0);
    CHECK(std::filesystem::is_empty(empty.path()));
    // Without data of one's own the program generates some, and does not write them either.
    std::string generated = t.start() + " --dry-run";
    for (const std::string flag : {" --text ", " --data "})
      if (const size_t at = generated.find(flag); at != generated.npos)
        generated.erase(at, generated.find(" --", at + 1) - at);
    CHECK(run_line(generated) == 0);
    CHECK(std::filesystem::is_empty(empty.path()));
    CHECK_THROWS_WITH_AS(run_line(t.resume() + " --dry-run"), doctest::Contains("--dry-run"),
                         Error);
  }
}

}  // namespace tern::test::test_dry_run
