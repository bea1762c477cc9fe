// The training programs under mpirun: the bits of a run depend on its blocks and not on the ranks,
// only rank 0 prints, and an error of any rank is printed once.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_program_ranks {
namespace {

// Runs a shell command in a folder. In it, `ranks N PROGRAM ...` starts N ranks of a program under
// mpirun, which allows more ranks than cores, and root, since a container may have no other user.
Ran in_shell(const std::string& command, const std::string& folder) {
  const std::string ranks = fmt::format(
      "ranks() {{ n=$1; shift; OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "
      "timeout 300 {} -n $n \"$@\"; }}\n",
      MPIRUN);
  return run_words({"sh", "-c", ranks + command}, with_programs(folder));
}

// Prefixes of a command line that load tests/faults/shim.cpp: with_fault() runs `command` in a
// shell just before operation $at in the folder `out`; with_log() writes all operations to the file
// `log`. Builds with sanitizers do not have the shim.
std::string with_fault(const std::string& out, const std::string& command) {
  return fmt::format(
      "env LD_PRELOAD={} FAULT_UNDER={} FAULT_HOW=shell FAULT_AT=$at FAULT_COMMAND='{}' ",
      FAULT_SHIM, out, command);
}
std::string with_log(const std::string& out) {
  return fmt::format("rm -f log; env LD_PRELOAD={} FAULT_UNDER={} FAULT_LOG=log ", FAULT_SHIM, out);
}
constexpr bool kFaults = *FAULT_SHIM != 0;

// The log of a run without the times and speeds.
std::string log_of(const std::string& folder) {
  return std::regex_replace(read_file(folder + "/log.jsonl"),
                            std::regex("\"(seconds|[a-z]*_per_s)\":[^,}]*"), "");
}

std::string lines_of_words() {
  std::string text;
  for (int i = 0; i < 30; ++i)
    text += fmt::format("the cat sat on mat {}\nit saw {} rats\n\n", i, 7 * i);
  return text;
}

TEST_CASE("programs: a run has the same bits on 1 to 3 ranks, stopped and resumed with others") {
  for (const std::string start :
       {"train_cifar --model gmlp-small --dropout 0.1 --limit 20 --batch 9 --mixup 0.5 --augment "
        "standard --ema 0.9 --epochs 8",
        "train_cifar --model gmlp-stem --limit 16 --batch 12 --epochs 2",
        "translate train --first 40 --epochs 4 --dim 16 --batch-tokens 150",
        "lm train --text text --vocab 257 --context 8 --dim 8 --heads 1 --layers 1 --batch 12 "
        "--epochs 2",
        "lm train --model bert --text text --vocab 257 --context 16 --dim 8 --heads 1 --layers 1 "
        "--batch 12 --epochs 2",
        "ntm train --hidden 6 --slots 9 --width 4 --sequences 60 --every 20 --batch 11"}) {
    CAPTURE(start);
    TempDir dir;
    write_file(dir / "text", lines_of_words());
    const Ran alone =
        in_shell(with_log("alone") + start + " --blocks 8 --threads 1 --out alone", dir.path());
    REQUIRE_MESSAGE(alone.code == 0, alone.err);
    // Rank 0 gets a SIGTERM while it writes its first checkpoint.
    const Ran broken =
        in_shell("at=$(sed -n '/rename checkpoint.safetensors/{s/ .*//p;q}' log); ranks 3 " +
                     with_fault("broken", "kill -TERM $PPID") + start +
                     " --shard-optimizer --threads 2 --out broken",
                 dir.path());
    CAPTURE(broken.err);
    CHECK(broken.code == (kFaults ? 130 : 0));
    const std::string resume = start.substr(0, start.find(" --")) + " --resume broken --threads 1";
    const Ran resumed = in_shell("ranks 2 " + resume, dir.path());
    CAPTURE(resumed.err);
    CHECK(resumed.code == 0);
    CHECK((read_file(dir / "broken/model.safetensors") ==
           read_file(dir / "alone/model.safetensors")));
    CHECK((log_of(dir / "broken") == log_of(dir / "alone")));
  }
}

constexpr const char* kTiny = "ntm train --hidden 6 --slots 9 --width 4 --sequences 24 --every 12 ";

TEST_CASE("programs: ranks print once what one process would print") {
  TempDir dir;
  const std::string tiny = kTiny;
  for (const std::string words :
       {"ntm train --help", "ntm --version", "ntm train --hiden 6",
        "ntm train --dry-run --blocks 8", "lm train --from nowhere", "ntm train --resume nowhere",
        "ntm train --blocks 8 --accumulate 2", "train_cifar --data nowhere --blocks 8"}) {
    CAPTURE(words);
    const Ran alone = in_shell(words, dir.path()), ranks = in_shell("ranks 3 " + words, dir.path());
    CHECK(ranks.code == alone.code);
    // mpirun also writes to standard error.
    if (words.find("dry-run") == words.npos) CHECK(ranks.out == alone.out);
    CHECK(count(ranks.out, "machine") == count(alone.out, "machine"));
    if (!alone.err.empty()) CHECK_MESSAGE(count(ranks.err, alone.err) == 1, ranks.err);
    CHECK(count(ranks.err, words.substr(0, words.find(' ')) + ": ") == (alone.err.empty() ? 0 : 1));
  }
  CHECK_FALSE(std::filesystem::exists(dir / "runs"));
}

TEST_CASE("programs: only commands whose work ranks do not share say so, once") {
  TempDir dir;
  const std::string said = "ntm: each of the 2 ranks does the whole work; only training shares it";
  const Ran train = in_shell(fmt::format("ranks 2 {}--out run", kTiny), dir.path());
  REQUIRE_MESSAGE(train.code == 0, train.err);
  CHECK(count(train.err, said) == 0);
  const Ran eval = in_shell("ranks 2 ntm eval --model run --count 2", dir.path());
  CHECK(eval.code == 0);
  CHECK_MESSAGE(count(eval.err, said) == 1, eval.err);
}

TEST_CASE("programs: ranks wait until rank 0 has written the report") {
  if (!kFaults) return;
  TempDir dir;
  const std::string tiny = kTiny;
  REQUIRE(in_shell(with_log("alone") + tiny + "--blocks 8 --out alone", dir.path()).code == 0);
  const auto in_report = [&](const std::string& command) {
    return in_shell(
        "at=$(sed -n '/rename report.html/{s/ .*//p;q}' log); rm -rf new; ranks 2 " +
            with_fault("new", command) +
            "sh -c 'echo $$ > pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec \"$@\"' sh " + tiny +
            "--rank-timeout 3 --out new",
        dir.path());
  };
  // A signal does not end a rank that only waits.
  const Ran signalled = in_report("kill -TERM $(cat pid.1)");
  CHECK_MESSAGE(signalled.code == 0, signalled.err);
  CHECK(std::filesystem::exists(dir / "new/report.html"));
  // Rank 0 hangs.
  const Ran stopped = in_report("kill -STOP $PPID");
  CHECK(stopped.code != 0);
  CHECK_MESSAGE(count(stopped.err, "rank 1: waited 3 s in the report for rank 0 ") == 1,
                stopped.err);
}

TEST_CASE("programs: rank 0 prints an error of another rank, with its number") {
  TempDir dir;
  const std::string tiny = kTiny, two = "ranks 1 " + tiny + "--out new : -n 1 " + tiny;
  const auto refused = [&](const std::string& command, const std::string& words) {
    const Ran r = in_shell(command, dir.path());
    CHECK(r.code == 2);
    CHECK_MESSAGE(count(r.err, words) == 1, r.err);
    CHECK_FALSE(std::filesystem::exists(dir / "new"));
  };
  refused(two + "--batch 10", "rank 1 has batch 10, rank 0 has 2\n");
  refused(two + "--seed 7", "rank 1 has seed 7, rank 0 has 0\n");
  refused(two + "--blocks 9", "rank 1 has parallel.blocks 9, rank 0 has 8\n");
  REQUIRE(in_shell(tiny + "--out whole", dir.path()).code == 0);
  refused("ranks 2 ntm train --resume whole", "started with whole batches");
}

}  // namespace
}  // namespace tern::test::test_program_ranks
