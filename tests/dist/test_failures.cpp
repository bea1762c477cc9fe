// A rank that hangs or fails outside of a step also ends the job, so that no rank waits for ever.
#include "tern/tests/dist/run_ranks.h"

namespace tern::test::test_failures {
namespace {

// Runs failing_ranks with `event` on rank 1.
ProgramResult fail_with(const std::string& event, int ranks = 3, int timeout = 3) {
  return run_ranks(ranks, FAILING_RANKS, fmt::format("{} 1 {}", event, timeout));
}

// Checks that the job ends with kExitRankLost and that a rank prints `words`.
void check_lost(const std::string& event, const std::string& words, int ranks = 3) {
  check_fails(fail_with(event, ranks), words, 3);
}

}  // namespace

TEST_CASE("failures: a rank that hangs at the start or at the end ends the job") {
  check_lost("late", ": waited 3 s for other ranks at the start; the job ends\n");
  check_lost("absent", ": waited 3 s in the end for rank 1 (last seen in the first meeting)");
  // If processes end in MPI_Finalize, mpirun (Open MPI 4.1.4) sometimes crashes: any code but 0.
  check_fails(fail_with("finalize"), ": waited 3 s for other ranks at the end; the job ends\n");
}

TEST_CASE("failures: a rank that hangs while another one fails ends the job") {
  check_lost("beside", ": waited 3 s in the end for rank 1 (last seen in the first meeting)");
}

TEST_CASE("failures: an error of MPI while a world ends is printed") {
  check_lost("broken", "rank 1: World: MPI_Iprobe: ");
}

TEST_CASE("failures: a timeout during a message of several parts names the rank") {
  check_lost("large", "rank 0: waited 3 s in a large message for rank 1 (last seen in", 2);
}

TEST_CASE("failures: ranks that were stopped themselves do not time out") {
  const ProgramResult r = fail_with("doze", 3, 6);
  CAPTURE(r.output);
  CHECK(r.code == 0);
}

}  // namespace tern::test::test_failures
