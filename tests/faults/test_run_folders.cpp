// Folders that are moved during a training, and folders from others that contain links and pipes.
#include <vector>

#include "tern/tests/apps/trainings.h"
#include "tern/tests/faults/process.h"
#include "tern/train/checkpoint.h"

namespace tern::test {
namespace {

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().filename().string());
  return files;
}

}  // namespace

TEST_CASE(
    "run folders: a run whose folder is moved ends, and leaves the next run of that name alone") {
  for (const Training& p : kPrograms) {
    const Shell shell;
    CAPTURE(p.name);
    // The run is stopped, and another run's folder has its name when it continues.
    const Ended ended = shell.run(fmt::format(
        "{0} --out run & first=$!; "
        "for i in $(seq 600); do test -e run/model.safetensors && break; sleep .1; done; "
        "kill -STOP $first; mv run old; {1} --out run || exit 9; cp -R run kept; "
        "kill -CONT $first; for i in $(seq 300); do kill -0 $first || break; sleep .1; done; "
        "kill -9 $first; wait $first; code=$?; diff -r run kept || exit 8; exit $code",
        p.start(1'000'000), p.start()));
    CAPTURE(ended.err);
    CHECK(ended.code == 1);
    CHECK(contains(
        ended.err,
        "run: the folder of the run was moved or removed while the program was running (its "
        "lock is no longer there), so nothing more is written. If it was moved, the run can be "
        "resumed from its new place"));
    CHECK_FALSE(fs::exists(shell / "run/lock"));
    CHECK_NOTHROW(training::load_checkpoint(shell / "old/checkpoint.safetensors"));
  }
}

TEST_CASE("run folders: a lock that is a link or a pipe is refused, and no file is emptied") {
  const Shell shell;
  for (const Training& p : kPrograms) {
    REQUIRE(shell.run(p.start() + " --out run").code == 0);
    for (const char* plant : {"ln -s ../mine run/lock", "mkfifo run/lock", "mkdir run/lock",
                              "cp mine run/lock", "ln mine run/lock"}) {
      CAPTURE(p.name);
      CAPTURE(plant);
      const Ended refused = shell.run(
          fmt::format("echo mine > mine; {} || exit 9; timeout 60 {}", plant, p.resume()));
      CAPTURE(refused.err);
      CHECK(refused.code == 2);
      CHECK(contains(refused.err, "run/lock"));
      CHECK(read_file(shell / "mine") == "mine\n");
      fs::remove_all(shell / "run/lock");
    }
    fs::remove_all(shell / "run");
  }
}

TEST_CASE("run folders: links and pipes in a run from others are not followed") {
  const Shell shell;
  for (const Training& p : kPrograms) {
    REQUIRE(shell.run(p.start() + " --tensorboard --out whole").code == 0);
    for (const std::string& file : files_in(shell / "whole"))
      for (const char* plant : {"ln -s ../mine", "mkfifo"}) {
        CAPTURE(p.name);
        CAPTURE(file);
        CAPTURE(plant);
        const Ended ended = shell.run(
            fmt::format("echo mine > mine; cp -R whole run; rm run/{1}; {0} run/{1} || exit 9; "
                        "timeout 60 {2}",
                        plant, file, p.resume()));
        CAPTURE(ended.err);
        const bool as_said = ended.code == 0 || (ended.code == 2 && contains(ended.err, file));
        CHECK(as_said);
        CHECK(read_file(shell / "mine") == "mine\n");
        CHECK(fs::is_regular_file(fs::symlink_status(shell / "mine")));
        fs::remove_all(shell / "run");
      }
    fs::remove_all(shell / "whole");
  }
}

TEST_CASE("run folders: pictures are not drawn into a folder behind a link") {
  const Shell shell;
  const Ended refused = shell.run(
      "mkdir mine run; echo mine > mine/data_batch_1.bin; echo 1 nobody > run/lock; "
      "ln -s ../mine run/data; " PROGRAM_TRAIN_CIFAR " --limit 64 --epochs 1 --out run");
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "run/data: this is a link"));
  CHECK(shell.run("cat mine/*").out == "mine\n");
}

}  // namespace tern::test
