// The processors that a loader's workers run on if OpenMP binds the thread that starts them.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tern/data/loading/loader.h"
#include "tern/tests/support/fresh_process.h"

namespace tern::test_worker_places {

TEST_CASE("loader: print the processors of a worker" * doctest::skip()) {
  datasets::Loader<std::vector<int>> loader(
      1, [](const datasets::BatchPlan&) { return test::processors_of_thread(); }, {.workers = 1});
  fmt::print("{}", fmt::join(*loader.next(), " "));
}

TEST_CASE("loader: workers run on all processors though OpenMP binds the main thread to one") {
  for (const std::string binding : {"", "OMP_PROC_BIND=close"}) {
    CAPTURE(binding);
    CHECK(test::printed_by("loader: print the processors of a worker", binding) ==
          fmt::format("{}", fmt::join(test::processors_of_thread(), " ")));
  }
}

}  // namespace tern::test_worker_places
