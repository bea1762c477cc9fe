// Programs under limits of their surroundings: full and closed streams, small stacks, little
// memory, signals, locks, folders with other files.
#include <algorithm>

#include "tern/tests/faults/process.h"

namespace tern::test {
namespace {

const std::string kNtm = PROGRAM_NTM
    " train --task copy --baseline --layers 1 --hidden 2 --sequences 2 --every 1 --batch 1";
// Takes hours unless it is stopped.
const std::string kLong =
    PROGRAM_NTM " train --task copy --hidden 8 --sequences 10000000 --every 1000000 --out run";
const std::string kTranslate =
    PROGRAM_TRANSLATE " train --first 40 --epochs 1 --dim 8 --heads 1 --ffn 8 --layers 1 ";
const std::string kLm =
    PROGRAM_LM " train --epochs 1 --dim 8 --heads 1 --layers 1 --context 16 --text text ";
const std::string kCifar = PROGRAM_TRAIN_CIFAR " --limit 64 --epochs 1 ";

// sh code that waits until a file exists.
std::string wait_for(const std::string& file) {
  return fmt::format("for i in $(seq 600); do test -e {} && break; sleep .1; done; ", file);
}

}  // namespace

TEST_CASE(
    "streams: a full standard output is reported and gives exit code 1; the training ends first") {
  const Shell shell;
  for (const std::string& program : {std::string(PROGRAM_NTM), std::string(PROGRAM_TRANSLATE),
                                     std::string(PROGRAM_LM), std::string(PROGRAM_TRAIN_CIFAR)}) {
    const Ended help = shell.run(program + " --help > /dev/full");
    CHECK(help.code == 1);
    CHECK(contains(help.err, "standard output cannot be written: No space left on device"));
  }
  const Ended full = shell.run(kNtm + " --out run > /dev/full");
  CHECK(full.code == 1);
  CHECK(contains(full.err, "No space left on device; the program continues without it"));
  CHECK(contains(full.err, "ntm: standard output cannot be written"));
  CHECK(fs::exists(shell / "run/best.safetensors"));
  CHECK(fs::exists(shell / "run/report.html"));
}

TEST_CASE("streams: a closed standard output is refused before anything is written to a file") {
  const Shell shell;
  for (const std::string& line : {kNtm, kTranslate, kLm, kCifar}) {
    const Ended closed = shell.run(line + " --out run >&-");
    CHECK(closed.code == 1);
    CHECK(
        contains(closed.err, "standard output is closed; to discard the output, give > /dev/null"));
    CHECK_FALSE(fs::exists(shell / "run"));
  }
  // With the other two closed, their descriptors are not reused for files.
  const Ended others = shell.run(kNtm + " --out run <&- 2>&-");
  CHECK(others.code == 0);
  CHECK(shell.run(PROGRAM_NTM " train --resume run").code == 0);
}

TEST_CASE(
    "streams: translate run refuses missing input, and reports output that cannot be written") {
  const Shell shell;
  REQUIRE(shell.run(kTranslate + "--out model").code == 0);
  const std::string run = PROGRAM_TRANSLATE " run --model model ";
  const Ended folder = shell.run(run + "< /tmp");
  CHECK(folder.code == 1);
  CHECK(contains(folder.err, "translate: standard input is a folder"));
  const Ended none = shell.run(run + "<&-");
  CHECK(none.code == 1);
  CHECK(contains(none.err, "translate: standard input is closed"));
  const Ended empty = shell.run(run + "< /dev/null");
  CHECK(empty.code == 0);
  const Ended full = shell.run("echo a dog | " + run + "> /dev/full");
  CHECK(full.code == 1);
  CHECK(
      contains(full.err, "translate: standard output cannot be written: No space left on device"));
  CHECK(shell.run("echo a dog | " + run).code == 0);
}

TEST_CASE("streams: lm reports generated text that cannot be written") {
  const Shell shell;
  REQUIRE(shell.run(kLm + "--out model").code == 0);
  const std::string write = PROGRAM_LM " generate --model model --prompt a --max-tokens 5 ";
  const Ended full = shell.run(write + "> /dev/full");
  CHECK(full.code == 1);
  CHECK(contains(full.err, "lm: standard output cannot be written"));
  CHECK(shell.run(write).code == 0);
}

TEST_CASE("stacks: a small stack is enough for every program, with one and with several threads") {
  const Shell shell;
  for (const std::string& line : {kNtm, kTranslate, kLm, kCifar})
    for (const int threads : {1, 3}) {
      const Ended ended =
          shell.run(fmt::format("ulimit -s 64; {} --threads {} --out run", line, threads));
      CAPTURE(line);
      CAPTURE(ended.err);
      CHECK(ended.code == 0);
      fs::remove_all(shell / "run");
    }
}

TEST_CASE("memory: an out-of-memory error gives the size, its purpose, and the free memory") {
  const Shell shell;
  const Ended ended = shell.run("ulimit -v 1500000; " PROGRAM_NTM
                                " train --task copy --hidden 16000 --out run --threads 1");
  CHECK(ended.code == 1);
  CAPTURE(ended.err);
  CHECK(contains(ended.err, "out of memory: 4096000000 bytes asked for, "));
  CHECK(contains(ended.err, "for a tensor f32 (64000, 16000); "));
  CHECK(contains(ended.err, " bytes are free on "));
}

TEST_CASE("memory: text of many lines takes little more memory than its bytes") {
  const Shell shell;
  shell.run("head -c 24000000 /dev/zero | tr '\\0' '\\n' > lines");
  const Ended ended = shell.run("ulimit -v 1500000; " PROGRAM_LM
                                " train --model bert --text lines --dim 8 --heads 1 --layers 1"
                                " --context 16 --dry-run --threads 1");
  CAPTURE(ended.err);
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "there is no text in it"));
}

TEST_CASE("signals: a closed terminal saves the run as Ctrl-C does; with nohup it continues") {
  const Shell shell;
  // While stopped, the run gets both signals at once.
  for (const std::string signals : {"HUP HUP", "TERM HUP", "HUP TERM", "INT HUP", "HUP INT"}) {
    // Background processes of a shell ignore SIGINT; env restores it.
    const Ended stopped = shell.run(
        fmt::format("env --default-signal=INT {} & {} for s in STOP {} CONT; do kill -$s $!; done; "
                    "wait $!",
                    kLong, wait_for("run/checkpoint.safetensors"), signals));
    CAPTURE(signals);
    CHECK(stopped.code == 130);
    CHECK(contains(stopped.err, "to resume: " PROGRAM_NTM " train --resume"));
    CHECK_FALSE(fs::exists(shell / "run/lock"));
    fs::remove_all(shell / "run");
  }
  const Ended kept = shell.run(
      fmt::format("nohup {} & {} kill -HUP $!; sleep .5; kill -0 $! || exit 9; kill $!; wait $!",
                  kLong, wait_for("run/checkpoint.safetensors")));
  CHECK(kept.code == 130);
  // In a script's background: Ctrl-C is meant for the foreground.
  const Ended behind = shell.run(
      fmt::format("rm -r run; {} & {} kill -INT $!; sleep .5; kill -0 $! || exit 9; kill $!; "
                  "wait $!",
                  kLong, wait_for("run/checkpoint.safetensors")));
  CHECK(behind.code == 130);
}

TEST_CASE(
    "locks: a second run is refused and names the process of the first; readers are accepted") {
  const Shell shell;
  REQUIRE(shell.run(kNtm + " --out run").code == 0);
  fs::remove(shell / "run/checkpoint.safetensors");
  for (const char* file : {"log.jsonl", "model.safetensors", "best.safetensors"})
    fs::rename(shell / "run/" + std::string(file), shell / file);
  const std::string first = fmt::format("{} & {}", kLong, wait_for("run/checkpoint.safetensors"));
  // Weights, so that readers have something to read.
  const Ended ended =
      shell.run(first + "cp model.safetensors best.safetensors run/; echo $! > pid; " + kNtm +
                " --out run; echo $? > train; " PROGRAM_NTM
                " train --resume run; echo $? > resume; " PROGRAM_NTM
                " eval --model run 2> eval; cat run/lock > lock; kill -9 $!; wait $!");
  CHECK(read_file(shell / "train") == "2\n");
  CHECK(read_file(shell / "resume") == "2\n");
  std::string pid = read_file(shell / "pid");
  pid.pop_back();
  CHECK(read_file(shell / "lock").starts_with(pid + " "));
  const std::string refused = "ntm: run: process " + pid + " is using the run in this folder";
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') >= 2);
  CHECK(contains(ended.err, refused));
  CHECK(contains(ended.err.substr(ended.err.find(refused) + 1), refused));
  CHECK_FALSE(contains(read_file(shell / "eval"), "is using the run"));
  CHECK(fs::exists(shell / "run/lock"));  // killed: the file remains, without the lock
  fs::remove(shell / "run/log.jsonl");
  const Ended again = shell.run(PROGRAM_NTM " train --resume run & " + wait_for("run/log.jsonl") +
                                "kill $!; wait $!");
  CHECK(again.code == 130);
  CHECK_FALSE(fs::exists(shell / "run/lock"));
}

TEST_CASE("locks: on a file system without locks the run continues with a warning") {
  const Shell shell;
  const Ended ended =
      shell.run("FAULT_HOW=nolock LD_PRELOAD=" FAULT_SHIM " " + kNtm + " --out run");
  CHECK(ended.code == 0);
  CHECK(contains(ended.err,
                 "run: its file system has no locks, so a second run in this folder would "
                 "not be noticed"));
}

// Leaves the folder as a kill before the first checkpoint does: files that describe the run, an
// empty log of older versions, a lock.
void make_dead_run(const Shell& shell) {
  fs::remove_all(shell / "run");
  fs::copy(shell / "whole", shell / "run", fs::copy_options::recursive);
  for (const char* file : {"checkpoint", "model", "best"})
    fs::remove(shell / fmt::format("run/{}.safetensors", file));
  std::ofstream(shell / "run/log.jsonl", std::ios::trunc);
  std::ofstream(shell / "run/lock") << "1 nobody\n";
}

TEST_CASE("folders: a program overwrites no file of others without being told to") {
  const Shell shell;
  const std::string mine = "mkdir -p run/data && echo mine > run/data/data_batch_1.bin; ";
  for (const std::string& line : {kNtm, kTranslate, kCifar}) {
    const Ended refused = shell.run(mine + line + " --out run");
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "--out run: the folder holds other files, such as data"));
    CHECK(shell.run("cat run/data/data_batch_1.bin; ls -A run").out == "mine\ndata\n");
    // The same for a file of others with the name of a run's file.
    const Ended named = shell.run("mkdir -p k && echo mine > k/config.json; " + line + " --out k");
    CHECK(named.code == 2);
    CHECK(contains(named.err, "--out k: the folder holds other files, such as config.json"));
    CHECK(shell.run("cat k/config.json; ls -A k").out == "mine\nconfig.json\n");
  }
  CHECK(shell.run("mkdir empty && touch empty/.keep; " + kTranslate + "--out empty").code == 0);
  const std::string plot = PROGRAM_TRANSLATE " plot --model empty 'a dog'";
  const Ended page = shell.run("echo mine > attention.html; " + plot);
  CHECK(page.code == 2);
  CHECK(contains(page.err, "attention.html exists and was not written by tern;"));
  CHECK(shell.run("cat attention.html").out == "mine\n");
  CHECK(shell.run("rm attention.html; " + plot + " && " + plot).code == 0);
}

TEST_CASE("files: a limit on file size is reported like a full disk") {
  const Shell shell;
  const Ended limited = shell.run("(ulimit -f 8; " + kTranslate + "--out run)");
  CHECK(limited.code == 1);
  CHECK(contains(limited.err, "File too large"));
}

TEST_CASE(
    "folders: a run without its first checkpoint starts again, with --out and with --resume") {
  const Shell shell;
  for (const std::string& line : {kNtm, kTranslate, kLm, kLm + "--model bert", kCifar}) {
    CAPTURE(line);
    REQUIRE(shell.run(line + " --out whole").code == 0);
    const std::string whole = read_file(shell / "whole/model.safetensors");
    const std::string resume = line.substr(0, line.find(" --")) + " --resume run";
    const auto check_anew = [&](const Ended& again) {
      CAPTURE(again.err);
      CHECK(again.code == 0);
      CHECK(contains(again.err,
                     "run: a run ended here before its first checkpoint; it starts again"));
      CHECK(read_file(shell / "run/model.safetensors") == whole);
    };
    make_dead_run(shell);
    check_anew(shell.run(line + " --out run"));
    make_dead_run(shell);
    check_anew(shell.run(resume));
    make_dead_run(shell);
    for (const char* file : {"config.json", "lm.json"})
      fs::remove(shell / fmt::format("run/{}", file));
    // Some files that describe the start are missing.
    const Ended refused = shell.run(resume);
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "start it again with --out run"));
    check_anew(shell.run(line + " --out run"));
    // Weights without a checkpoint may be somebody's work, so they are not overwritten.
    fs::remove(shell / "run/checkpoint.safetensors");
    const Ended kept = shell.run(line + " --out run");
    CHECK(kept.code == 2);
    CHECK(contains(kept.err, "but no checkpoint to resume from; choose another folder"));
    CHECK(shell.run(resume).code == 2);
    fs::remove_all(shell / "whole");
  }
}

}  // namespace tern::test
