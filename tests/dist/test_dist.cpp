// Ranks that train together under mpirun: the bits do not depend on the number of ranks, and an
// error on one rank ends all of them.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/dist/detail/block_tree.h"
#include "tern/dist/detail/placement.h"
#include "tern/dist/step_plan.h"
#include "tern/tests/dist/run_ranks.h"

namespace tern::test::test_dist {
namespace {

ProgramResult ranks(int number, const std::string& arguments, const std::string& program = RANKS,
                    const std::string& prefix = "", const std::string& options = "") {
  return run_ranks(number, program, arguments, prefix, options);
}

}  // namespace

TEST_CASE("dist: weights, buffers and losses have the same bits on 1 to 8 ranks") {
  for (const std::string model : {"dropout", "batch_norm", "uneven", "frozen", "checkpoint"}) {
    CAPTURE(model);
    const ProgramResult alone = run_program(fmt::format("{} {} 6 1", RANKS, model));
    CAPTURE(alone.output);
    REQUIRE(alone.code == 0);
    for (const int number : {1, 2, 3, 5, 8})
      for (const int threads : {1, 2}) {
        if (threads == 2 && number > 3) continue;
        if (number != 3 && (model == "frozen" || model == "checkpoint")) continue;
        CAPTURE(number);
        CAPTURE(threads);
        const ProgramResult together = ranks(number, fmt::format("{} 6 {}", model, threads));
        CHECK(together.code == 0);
        CHECK(together.output == alone.output);
      }
  }
}

TEST_CASE("dist: ranks with AVX2 and AVX-512 work together with the same bits") {
  const ProgramResult alone = run_program(fmt::format("{} dropout 6 1", RANKS));
  const ProgramResult mixed = ranks(3, "dropout 6 1 avx2 1 0");
  CHECK(mixed.code == 0);
  CHECK(mixed.output == alone.output);
}

TEST_CASE("dist: the program of the documentation learns, with the same losses on 1 and 4 ranks") {
  const ProgramResult alone = run_program(EXAMPLE);
  CHECK(alone.code == 0);
  CHECK(alone.output.starts_with("step 25: loss "));
  CHECK(ranks(4, "", EXAMPLE).output == alone.output);
}

TEST_CASE("dist: a loop gives the same numbers on 1 to 8 ranks, even if stopped or killed") {
  const TempDir whole;
  const ProgramResult alone = run_program(fmt::format("{} {} 1", LOOP_RANKS, whole.path()));
  CAPTURE(alone.output);
  REQUIRE(alone.code == 0);
  CHECK(contains(alone.output, "4 valid_loss"));
  for (const int number : {2, 3, 8}) {
    CAPTURE(number);
    const TempDir folder;
    CHECK(ranks(number, folder.path() + " 1", LOOP_RANKS).output == alone.output);
    // The files of weights equal those of one rank byte for byte.
    CHECK(run_program(fmt::format("cmp {0}/model.safetensors {1}/model.safetensors && cmp "
                                  "{0}/best.safetensors {1}/best.safetensors",
                                  whole.path(), folder.path()))
              .code == 0);
  }
  for (const std::string event : {"stop", "kill"})
    for (const int rank : {0, 2})
      for (const int step : {2, 6}) {  // in mid-epoch, and in an epoch's last step
        CAPTURE(event);
        CAPTURE(rank);
        CAPTURE(step);
        const TempDir folder;
        const ProgramResult broken =
            ranks(3, fmt::format("{} 1 {} {} {}", folder.path(), event, rank, step), LOOP_RANKS);
        CAPTURE(broken.output);
        // For a killed rank Open MPI exits like a shell (137), MPICH with the signal's number (9).
        CHECK((broken.code == (event == "stop" ? 130 : 137) ||
               (event == "kill" && broken.code == 9)));
        const ProgramResult resumed = ranks(rank == 0 ? 2 : 1, folder.path() + " 2", LOOP_RANKS);
        CHECK(resumed.output == alone.output);
      }
}

TEST_CASE("dist: a loop reports on every rank which step and rank diverged") {
  const TempDir folder;
  const ProgramResult r = ranks(3, folder.path() + " 1 nan 1 5", LOOP_RANKS);
  check_fails(r, "ERROR the loss is nan in step 5 (epoch 2)", 1);
  check_fails(r, "ERROR rank 1: the loss is nan in step 5", 1);
}

TEST_CASE("dist: an error on one rank reaches all of them with its text") {
  for (const int failing : {0, 2}) {
    const ProgramResult r = ranks(3, fmt::format("dropout 4 1 throw {} 2", failing));
    check_fails(r, "ERROR the data of this rank are lost");
    size_t told = 0;
    const std::string text =
        fmt::format("ERROR rank {}: the data of this rank are lost\nexit code 7\n", failing);
    for (size_t at = 0; (at = r.output.find(text, at)) != r.output.npos; ++at) ++told;
    CHECK(told == 2);
  }
}

TEST_CASE("dist: an exception between steps ends all ranks") {
  const ProgramResult r = ranks(3, "dropout 4 1 outside 1 2");
  check_fails(r, "ERROR what the program does between steps", 1);
  check_fails(r, "ERROR rank 1: an exception ended this rank", 1);
}

TEST_CASE("dist: a folder that rank 0 refuses ends all ranks") {
  const TempDir folder;
  REQUIRE(run_program(fmt::format("{} {} 1", LOOP_RANKS, folder.path())).code == 0);
  check_fails(ranks(2, folder.path() + " 1 anew 0 0", LOOP_RANKS),
              "ERROR rank 0: " + folder.path() + ": the folder holds a run", 1);
}

TEST_CASE("dist: a loss that is not a number ends all ranks") {
  check_fails(ranks(2, "dropout 4 1 nan 1 2"),
              "ERROR rank 1: GradientSum: the loss of block 4 is nan");
}

TEST_CASE("dist: a rank that hangs ends the job and is named") {
  check_fails(ranks(3, "dropout 4 1 hang 1 2"),
              "in the losses of step 3 for rank 1 (last seen in the counts of step 2)", 3);
}

TEST_CASE("dist: a rank that exits ends the job") {
  const ProgramResult r = ranks(3, "dropout 4 1 exit 1 2");
  CAPTURE(r.output);
  CHECK(r.code != 0);
}

TEST_CASE("dist: ranks with different weights are refused before the first step") {
  check_fails(ranks(2, "dropout 4 1 other_seed 1 0"),
              "ERROR rank 1 has a different up.weight from rank 0 after step 0\n");
}

TEST_CASE("dist: an error during backward reaches all ranks") {
  for (const int failing : {0, 2})
    check_fails(ranks(3, fmt::format("dropout 4 1 in_backward {} 2", failing)),
                fmt::format("ERROR rank {}: in the midst of backward", failing));
}

TEST_CASE("dist: an error names options and models that differ") {
  check_fails(ranks(3, "dropout 1 1 other_options 2 0"),
              "ERROR rank 2 has blocks 9, rank 0 has 8\n");
  check_fails(ranks(2, "dropout 1 1 other_model 1 0"),
              "ERROR rank 1 has a up.weight of f32 (20, 5), rank 0 has f32 (19, 5)\n");
}

TEST_CASE("dist: a comparison finds the rank that drifted") {
  // Of three ranks it is the one that differs from the two others; of two it is not rank 0.
  check_fails(ranks(3, "dropout 6 1 drift 0 2"),
              "ERROR rank 0 has a different down.weight from rank 1 after step 4\n");
  check_fails(ranks(2, "dropout 6 1 drift_state 1 1"),
              "ERROR rank 1 has a different rare.bias.exp_avg from rank 0 after step 2\n");
}

TEST_CASE("dist: buckets hold each tensor once and in order, and the last ones are small") {
  std::vector<dist::detail::BucketItem> items(100, {DType::f32, 250});  // 1,000 bytes each
  items[50].dtype = DType::f64;
  const std::vector<dist::detail::Bucket> buckets = dist::detail::buckets_of(items, 8000);
  size_t next = 0;
  for (const dist::detail::Bucket& b : buckets) {
    CHECK(b.first == next);
    CHECK(b.size() == 250 * static_cast<int64_t>(b.end - b.first));
    for (size_t i = b.first; i < b.end; ++i) CHECK(items[i].dtype == b.dtype);
    next = b.end;
  }
  CHECK(next == items.size());
  CHECK(buckets.front().size() == 2000);  // 8,000 bytes
  CHECK(buckets.back().size() == 250);
  CHECK(dist::detail::buckets_of({}, 8000).empty());
}

TEST_CASE("dist: a plan has the traffic of its ranks only") {
  const dist::StepPlan plan({{"w", zeros({3})}}, {}, {}, 2);
  CHECK(plan.traffic(1).sent > 0);
  for (const int64_t rank : {-1, 2})
    CHECK_THROWS_WITH_AS(plan.traffic(rank), doctest::Contains("StepPlan: there is no rank"),
                         Error);
}

TEST_CASE("dist: gradients of frozen parameters are not sent") {
  // The bytes that two ranks send in one step.
  const auto bytes = [](const std::string& model) {
    const ProgramResult r = ranks(2, model + " 1 1 time 0 0");
    CAPTURE(r.output);
    CHECK(r.code == 0);
    long long sum = 0;
    for (size_t at = 0; (at = r.output.find("sent ", at)) != r.output.npos; ++at)
      sum += std::atoll(r.output.c_str() + at + 5);
    return sum;
  };
  // The layer has 5 * 19 + 19 numbers. Each is sent once to be added up and once as a sum. Each
  // rank also sends one byte for each of its two tensors.
  CHECK(bytes("dropout") - bytes("frozen") == 2 * (5 * 19 + 19) * 4 + 2 * 2);
}

TEST_CASE("dist: ranks on the same cores share them, or warn that they do not") {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  int core = 0;
  while (!CPU_ISSET(core, &set)) ++core;
  const std::string one_core = fmt::format("env -u OMP_NUM_THREADS taskset -c {}", core);
  const ProgramResult alone = run_program(fmt::format("env -u OMP_NUM_THREADS {} threads", RANKS));
  const int threads = std::atoi(alone.output.c_str());
  REQUIRE(threads >= 1);
  const ProgramResult shared =
      ranks(2, "threads", RANKS, "env -u OMP_NUM_THREADS", "--bind-to none");
  CHECK(shared.output == fmt::format("{}\n", std::max(1, threads / 2)));
  const ProgramResult crowded = ranks(2, "dropout 1 2", RANKS, one_core, "--bind-to none");
  CHECK(crowded.code == 0);
  CHECK(crowded.warnings ==
        "tern: 2 ranks of one machine have 2 threads each on 1 core: give each rank 1 (--threads, "
        "set_num_threads)\n");
  CHECK(ranks(2, "dropout 1 1", RANKS, one_core, "--bind-to none").warnings.empty());
  // OpenMP binds each thread to another core; that must not cause a warning.
  CHECK(
      ranks(2, "dropout 1 1", RANKS, "env OMP_PROC_BIND=close", "--bind-to none").warnings.empty());
}

TEST_CASE("dist: a rank that mpirun binds to few cores gets a warning with a remedy") {
  using dist::detail::Placement;
  const auto warning = [](std::vector<Placement> ranks) {
    return dist::detail::placement_warning(ranks);
  };
  // Machines a and b have four cores. Two ranks bound to one core each leave two cores idle.
  const std::string bound =
      "rank 0 is bound to 1 of the 4 cores that mpirun may use: start with mpirun --bind-to none";
  CHECK(warning({{"a", {0}, 4, 1}, {"a", {1}, 4, 1}}) == bound);
  CHECK(warning({{"a", {0}, 4, 4}, {"a", {1}, 4, 4}, {"a", {2}, 4, 4}, {"a", {3}, 4, 4}}) == bound);
  // No warning: one core per rank and none idle; half of the cores each; all of two machines.
  CHECK(warning({{"a", {0}, 4, 1}, {"a", {1}, 4, 1}, {"a", {2}, 4, 1}, {"a", {3}, 4, 1}}).empty());
  CHECK(warning({{"a", {0, 1, 2, 3}, 4, 2}, {"a", {0, 1, 2, 3}, 4, 2}}).empty());
  CHECK(warning({{"a", {0, 1, 2, 3}, 4, 4}, {"b", {0, 1, 2, 3}, 4, 4}}).empty());
  CHECK(warning({{"a", {0, 1, 2, 3}, 4, 4}, {"b", {0, 1}, 2, 4}}) ==
        "rank 1 has 4 threads on 2 cores: give each rank 2 (--threads, set_num_threads)");
  // No warning if the cores are unknown.
  CHECK(warning({{"a", {}, 0, 4}, {"a", {}, 0, 4}}).empty());
}

}  // namespace tern::test::test_dist
