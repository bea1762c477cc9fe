// A rank that hangs or fails outside of a step ends the job as well, and nobody waits for ever.
#include "tern/tests/dist/run_ranks.h"

namespace tern::test::test_failures {
namespace {

// Rank 1 is the one that `event` is about.
ProgramResult fail_with(const std::string& event, int ranks = 3, int timeout = 3) {
  return run_ranks(ranks, FAILING_RANKS, fmt::format("{} 1 {}", event, timeout));
}

// The job ends as one that lost a rank, and some rank says `words`.
void check_lost(const std::string& event, const std::string& words, int ranks = 3) {
  const ProgramResult r = fail_with(event, ranks);
  CAPTURE(event);
  CAPTURE(r.output);
  CHECK(r.code == 3);
  CHECK(r.output.find(words) != r.output.npos);
}

}  // namespace

TEST_CASE("failures: a rank that hangs at the start or at the end ends the job") {
  check_lost("late", ": waited 3 s for other ranks at the start; the job ends\n");
  check_lost("absent", ": waited 3 s in the end for rank 1 (last seen in the first meeting)");
  // Where processes end in MPI_Finalize, mpirun (Open MPI 4.1.4) crashes now and then.
  const ProgramResult r = fail_with("finalize");
  CAPTURE(r.output);
  CHECK(r.code != 0);
  CHECK(r.output.find(": waited 3 s for other ranks at the end; the job ends\n") != r.output.npos);
}

TEST_CASE("failures: a rank that hangs while another one fails ends the job, too") {
  check_lost("beside", ": waited 3 s in the end for rank 1 (last seen in the first meeting)");
}

TEST_CASE("failures: an error of MPI while a world ends is said") {
  check_lost("broken", "rank 1: World: MPI_Iprobe: ");
}

TEST_CASE("failures: who waits for a message of several parts says for whom") {
  check_lost("large", "rank 0: waited 3 s in a large message for rank 1 (last seen in", 2);
}

TEST_CASE("failures: ranks that were stopped themselves do not blame each other") {
  const ProgramResult r = fail_with("doze", 3, 6);
  CAPTURE(r.output);
  CHECK(r.code == 0);
}

}  // namespace tern::test::test_failures
