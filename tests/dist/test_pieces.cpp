// Work that ranks share in pieces: every rank gets the results of all, in order.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "tern/dist/pieces.h"
#include "tern/tests/dist/run_ranks.h"

namespace tern::test::test_pieces {

TEST_CASE("pieces: one process gets results in order, and nothing once a piece gives nothing") {
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

TEST_CASE("pieces: ranks get what one process gets, and stop or fail together") {
  const ProgramResult alone = run_program(PIECES_RANKS);
  REQUIRE(alone.code == 0);
  CHECK(alone.output.find("0x1p+0") == alone.output.npos);  // piece 0 has no numbers
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const ProgramResult r = run_ranks(ranks, PIECES_RANKS, ranks == 3 ? "slow" : "");
    CHECK(r.code == 0);
    CHECK(r.output == alone.output);
  }
  const ProgramResult stopped = run_ranks(3, PIECES_RANKS, "stop");
  CHECK(stopped.code == 0);
  CHECK(stopped.output == "stopped\n");
  CHECK(run_ranks(3, PIECES_RANKS, "throw").output.find("ERROR rank 2: piece 20 is lost") !=
        std::string::npos);
  CHECK(run_ranks(3, PIECES_RANKS, "fail").output.find("ERROR rank 1: the data are lost") !=
        std::string::npos);
}

}  // namespace tern::test::test_pieces
