// Work that ranks share: every rank gets the results of all items in order, and all stop together.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "tern/dist/shared_work.h"
#include "tern/tests/dist/run_ranks.h"

namespace tern::test::test_shared_work {

TEST_CASE("shared work: one process gets results in order, and none if an item returns nothing") {
  int64_t calls = 0;
  const auto square = [&](int64_t i) -> std::optional<dist::Numbers> {
    ++calls;
    if (i == 12) return std::nullopt;
    return dist::Numbers{static_cast<double>(i * i)};
  };
  const auto all = dist::share_numbers(nullptr, "squares", 12, square);
  REQUIRE(all);
  REQUIRE(all->size() == 12);
  for (size_t i = 0; i < 12; ++i) CHECK((*all)[i] == dist::Numbers{static_cast<double>(i * i)});
  CHECK(dist::share_numbers(nullptr, "none", 0, square)->empty());
  calls = 0;
  CHECK_FALSE(dist::share_numbers(nullptr, "stopped", 30, square).has_value());
  CHECK(calls == 13);
}

TEST_CASE("shared work: ranks get the results of one process, and stop or fail together") {
  const ProgramResult alone = run_program(SHARED_WORK_RANKS);
  REQUIRE(alone.code == 0);
  CHECK(alone.output.find("0x1p+0") == alone.output.npos);  // item 0 has no numbers
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const ProgramResult r = run_ranks(ranks, SHARED_WORK_RANKS, ranks == 3 ? "slow" : "");
    CHECK(r.code == 0);
    CHECK(r.output == alone.output);
  }
  const ProgramResult stopped = run_ranks(3, SHARED_WORK_RANKS, "stop");
  CHECK(stopped.code == 0);
  CHECK(stopped.output == "stopped\n");
  CHECK(run_ranks(3, SHARED_WORK_RANKS, "throw").output.find("ERROR rank 2: item 20 is lost") !=
        std::string::npos);
  CHECK(run_ranks(3, SHARED_WORK_RANKS, "fail").output.find("ERROR rank 1: the data are lost") !=
        std::string::npos);
}

}  // namespace tern::test::test_shared_work
