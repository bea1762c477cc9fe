// Loops whose ranks split the optimizer's states or train apart for several steps, against one rank
// or an uninterrupted run.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tern/tests/dist/run_ranks.h"

namespace tern::test::test_loop_ranks {
namespace {

ProgramResult loop(int ranks, const std::string& arguments) {
  return run_ranks(ranks, LOOP_RANKS, arguments);
}

// The last number of each line whose name has a dot, which are those of weights and buffers.
std::vector<double> weights_of(const std::string& output) {
  std::vector<double> all;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (const size_t space = line.rfind(' '); line.find('.') < space && line.find("0x", space) + 1)
      all.push_back(std::strtod(line.c_str() + space, nullptr));
  return all;
}

}  // namespace

TEST_CASE("ranks: a sharded optimizer has the bits of a whole one, also resumed on other ranks") {
  const TempDir whole;
  const ProgramResult alone = run_program(fmt::format("{} {} 1", LOOP_RANKS, whole.path()));
  CAPTURE(alone.output);
  REQUIRE(alone.code == 0);
  CHECK(contains(alone.output, "optimizer.up.weight.exp_avg "));
  {
    const TempDir folder;
    CHECK(loop(8, fmt::format("--sharded {} 1", folder.path())).output == alone.output);
  }
  struct Break {
    const char *first, *event, *then;
    int ranks, rank, other_ranks;
  };
  for (const Break& b : {Break{"--sharded", "kill", "", 3, 2, 2},
                         {"--sharded", "stop", "--sharded", 2, 1, 3},
                         {"", "kill", "--sharded", 2, 0, 3}}) {
    CAPTURE(b.event);
    CAPTURE(b.ranks);
    const TempDir folder;
    const ProgramResult broken =
        loop(b.ranks, fmt::format("{} {} 1 {} {} 5", b.first, folder.path(), b.event, b.rank));
    CAPTURE(broken.output);
    CHECK(broken.code != 0);
    CHECK(loop(b.other_ranks, fmt::format("{} {} 2", b.then, folder.path())).output ==
          alone.output);
  }
}

TEST_CASE("ranks: a sharded optimizer with 8-bit states has the bits of a whole one") {
  const TempDir whole, folder, broken;
  const ProgramResult alone = run_program(fmt::format("{} --eight {} 1", LOOP_RANKS, whole.path()));
  REQUIRE(alone.code == 0);
  CHECK(contains(alone.output, "optimizer.up.weight.exp_avg.scale "));
  CHECK((loop(2, fmt::format("--eight --sharded {} 1", folder.path())).output == alone.output));
  CHECK(loop(3, fmt::format("--eight --sharded {} 1 kill 1 5", broken.path())).code != 0);
  CHECK((loop(2, fmt::format("--eight --sharded {} 2", broken.path())).output == alone.output));
}

TEST_CASE("ranks: resuming restores frozen parameters and a run counted in steps, on any ranks") {
  const TempDir whole;
  const ProgramResult alone =
      run_program(fmt::format("{} --thaw --stepwise {} 1", LOOP_RANKS, whole.path()));
  CAPTURE(alone.output);
  REQUIRE(alone.code == 0);
  CHECK(contains(alone.output, "3 valid_loss "));  // after steps 4, 8 and 11
  CHECK_FALSE(contains(alone.output, "4 valid_loss "));
  for (const char* sharded : {"", "--sharded"})
    for (const int step : {3, 6, 10}) {
      CAPTURE(step);
      const TempDir folder;
      const std::string how = fmt::format("{} --thaw --stepwise {}", sharded, folder.path());
      CHECK(loop(2, fmt::format("{} 1 kill 1 {}", how, step)).code != 0);
      CHECK(loop(3, how + " 1").output == alone.output);
    }
}

TEST_CASE("ranks: local steps in a run counted in steps resume with the same bits") {
  const TempDir whole;
  const std::string how = "--thaw --stepwise --local=3 ";
  const ProgramResult unbroken = loop(2, how + whole.path() + " 1");
  CAPTURE(unbroken.output);
  REQUIRE(unbroken.code == 0);
  for (const int step : {2, 6, 10}) {
    const TempDir folder;
    CHECK(loop(2, fmt::format("{}{} 1 kill 1 {}", how, folder.path(), step)).code != 0);
    CHECK(loop(2, how + folder.path() + " 1").output == unbroken.output);
  }
}

TEST_CASE("ranks: an error while weights are sent keeps the buffers of open transfers") {
  // AddressSanitizer checks it: MPI writes the weights of rank 0 into the buffers of rank 1.
  const TempDir folder;
  const ProgramResult r = loop(3, fmt::format("--sharded {} 1 update 2 3", folder / "run"));
  check_fails(r, "ERROR lost before the update", 1);
  check_fails(r, "ERROR rank 2: lost before the update");
  CHECK_FALSE(contains(r.output, "Sanitizer"));
}

TEST_CASE("ranks: a loop names the setting in which one rank differs") {
  const auto refused = [](const std::string& what, const std::string& words) {
    check_fails(loop(2, fmt::format("--sharded --watch - 1 {} 1 0", what)),
                "ERROR rank 1 has " + words, 1);
  };
  refused("seed", "a loader (seed, batch, samples) with the checksum ");
  refused("epochs", "epochs 5, rank 0 has 4\n");
  refused("rate", "a learning rate of 0.02, rank 0 has 0.01\n");
  refused("metric", "valid_loss ");
}

TEST_CASE("ranks: a loop finds the rank whose weights drifted") {
  const TempDir folder;
  check_fails(loop(3, fmt::format("{} 1 drift 1 3", folder.path())),
              "rank 1 has a different up.bias from rank 0 after step 4", 1);
}

TEST_CASE("ranks: after a resume the error about a drifted rank has the right step") {
  const TempDir folder;
  REQUIRE(loop(2, fmt::format("{} 1 stop 0 5", folder.path())).code == 130);
  check_fails(loop(3, fmt::format("{} 1 drift 1 9", folder.path())),
              "rank 1 has a different up.bias from rank 0 after step 10");
}

TEST_CASE("ranks: a run resumes after a kept epoch if rank 0 sees its files") {
  const TempDir whole, empty;
  const ProgramResult alone =
      run_program(fmt::format("{} --keep=3 {} 1", LOOP_RANKS, whole.path()));
  REQUIRE(alone.code == 0);
  const std::string after = fmt::format("--keep=3 --after=2 {} 1", whole.path());
  CHECK(loop(3, after).output == alone.output);
  // Fails if another process has the lock.
  std::filesystem::remove(whole / "lock");
  check_fails(run_ranks(2, LOOP_RANKS, after, fmt::format("flock {}/lock", whole.path())),
              fmt::format("ERROR rank 0: {}: another process", whole.path()), 1);
  // Fails if rank 1 does not see the files.
  check_fails(
      loop(1, fmt::format("{} : -n 1 {} --keep=3 --after=2 {} 1", after, LOOP_RANKS, empty.path())),
      fmt::format("ERROR rank 1: load_safetensors: {}/checkpoint-2.safetensors: ", empty.path()),
      1);
}

TEST_CASE("ranks: a slow disk may exceed the timeout of the ranks") {
  for (const std::string options : {"--slow=model", "--sharded --slow=checkpoint"}) {
    const TempDir folder;
    const ProgramResult r = loop(2, fmt::format("{} {} 1", options, folder.path()));
    CAPTURE(r.output);
    CHECK(r.code == 0);
  }
}

TEST_CASE("ranks: one local step and the mean of the weights equal a shared step") {
  const TempDir shared, apart;
  const ProgramResult together =
      run_program(fmt::format("{} --plain {} 1", LOOP_RANKS, shared.path()));
  const ProgramResult local = loop(3, fmt::format("--plain --local=1 {} 1", apart.path()));
  CAPTURE(together.output);
  CAPTURE(local.output);
  const std::vector<double> x = weights_of(together.output), y = weights_of(local.output);
  REQUIRE(x.size() > 80);
  REQUIRE(x.size() == y.size());
  // In f64 each of 12 steps has some hundred roundings of values below 4, each below 2^-53 of the
  // value. With a learning rate of 0.01 a difference grows by less than a factor of 2 in 12 steps.
  const double bound = 12 * 300 * 4 * 2 * std::ldexp(1.0, -53);
  for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) <= bound);
}

TEST_CASE("ranks: all ranks have the same weights after each outer step, but not between") {
  // Epochs have three steps, with outer steps after the second and the third. The last batch has
  // five samples, so three of the eight ranks have none.
  const ProgramResult r = loop(8, "--local=2 --watch - 1");
  CAPTURE(r.output);
  CHECK(r.code == 0);
  CHECK(r.output.starts_with("apart\nsame\nsame\napart\nsame\nsame\napart\nsame\nsame\napart\n"));
}

TEST_CASE("ranks: with equal samples, ranks that train apart still differ by dropout") {
  const ProgramResult r = loop(2, "--local=2 --watch --alike - 1");
  CAPTURE(r.output);
  CHECK(r.output.starts_with("apart\nsame\n"));
}

TEST_CASE("ranks: local steps resume after a kill with the bits of an uninterrupted run") {
  // Kills it in the third step of a round, whose batch is cut into other shares than those before.
  const TempDir whole, folder;
  const ProgramResult unbroken = loop(3, fmt::format("--local=3 {} 1", whole.path()));
  CAPTURE(unbroken.output);
  REQUIRE(unbroken.code == 0);
  const ProgramResult broken = loop(3, fmt::format("--local=3 {} 1 kill 1 6", folder.path()));
  CHECK(broken.code == 137);
  // Each rank has a different state, so a resume needs the same number of ranks.
  check_fails(loop(2, fmt::format("--local=3 {} 1", folder.path())),
              "resume it with 3 ranks and 3 local steps, not with 2 and 3", 1);
  const ProgramResult shared = run_program(fmt::format("{} {} 1", LOOP_RANKS, folder.path()));
  CHECK(contains(shared.output, "the run takes local steps"));
  CHECK(loop(3, fmt::format("--local=3 {} 1", folder.path())).output == unbroken.output);
}

TEST_CASE("ranks: local steps need fewer exchanges than steps") {
  // Four epochs of 45 steps, in rounds of 40 and 5.
  const ProgramResult r = loop(2, "--local=40 --batch=1 --count - 1");
  CAPTURE(r.output);
  CHECK(r.code == 0);
  const size_t at = r.output.find("exchanges ");
  REQUIRE(at != r.output.npos);
  CHECK(std::atoll(r.output.c_str() + at + 10) < 4 * 45);
}

TEST_CASE("ranks: a signal stops local steps within a round, which resume with the same bits") {
  // Epochs have 23 steps, in rounds of 20 and 3. After step 16 ranks learn of a signal in the first
  // 8.
  const TempDir whole, folder;
  const std::string options = "--local=20 --batch=2 ";
  const ProgramResult unbroken = loop(3, fmt::format("{}{} 1", options, whole.path()));
  REQUIRE(unbroken.code == 0);
  const ProgramResult broken = loop(3, fmt::format("{}{} 1 stop 1 5", options, folder.path()));
  CHECK(broken.code == 130);
  CHECK(loop(3, fmt::format("{}{} 1", options, folder.path())).output == unbroken.output);
}

}  // namespace tern::test::test_loop_ranks
