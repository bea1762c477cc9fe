// The folder of a run is moved, removed or replaced while a program begins or ends the run: nothing
// is written into the folder that took its name.
#include <algorithm>
#include <vector>

#include "tern/tests/faults/process.h"

namespace tern::test {
namespace {

struct Row {
  std::string train;
  std::string run = "";    // the files of a run to resume; empty: a new run
  std::string until = "";  // tries only moments before this file is opened
};

const std::vector<Row> kRows = {
    {PROGRAM_NTM " train --task copy --baseline --layers 1 --hidden 2 --batch 1 --every 2"
                 " --sequences 2 --out \"$PWD/run\""},
    {PROGRAM_TRANSLATE " train --first 40 --dim 8 --heads 1 --ffn 8 --layers 1 --epochs 1"
                       " --out \"$PWD/run\""},
    {PROGRAM_LM " train --dim 8 --heads 1 --layers 1 --context 16 --text text --epochs 1"
                " --out \"$PWD/run\""},
    {PROGRAM_LM " train --model bert --dim 8 --heads 1 --layers 1 --context 16 --text text"
                " --epochs 1 --out \"$PWD/run\""},
    {PROGRAM_TRAIN_CIFAR " --data data --model gmlp-small --hold-out 0.5 --epochs 1"
                         " --out \"$PWD/run\""},
    // The program draws 10,000 pictures, which takes a second, so only moments in that time are
    // tried.
    {PROGRAM_TRAIN_CIFAR " --limit 64 --hold-out 0.5 --epochs 1 --out \"$PWD/run\"", "",
     "config.json"},
    {PROGRAM_LM " train --resume \"$PWD/run\" --patience 3",
     "lm.json vocab.json merges.txt config.json"},
};

// Each happening also has a folder `other`, which may get the run's name.
const std::vector<std::string> kHappenings = {
    "mv run old",
    "rm -r run",
    "mv run old && cp -R other run",
    "mv run old && ln -s other run",
};

// Whether the operation looks up a name in the folder: before the first checkpoint, or for the
// files written at the end. Of similar files only the first counts.
bool is_moment(const Operation& o, bool begins) {
  for (const char* alike :
       {"data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"})
    if (o.name.starts_with(alike)) return false;
  for (const char* kind : {"open", "mkdir", "link", "unlink"})
    if (o.kind == kind)
      return begins || o.name.starts_with("report.html") || o.name.starts_with("run.json");
  return false;
}

// The numbers of these operations, from the lock of the folder on.
std::vector<size_t> moments(const std::vector<Operation>& all, const std::string& until) {
  const auto lock = std::find_if(all.begin(), all.end(), [](const Operation& o) {
    return o.kind == "open" && o.name == "lock";
  });
  const auto checkpoint = std::find_if(lock, all.end(), [](const Operation& o) {
    return o.kind == "rename" && o.name == "checkpoint.safetensors";
  });
  REQUIRE(checkpoint != all.end());
  std::vector<size_t> numbers;
  for (auto o = lock + 1; o != all.end(); ++o) {
    if (!until.empty() && o->name.starts_with(until)) break;
    if (is_moment(*o, o < checkpoint)) numbers.push_back(static_cast<size_t>(o - all.begin()) + 1);
  }
  REQUIRE(!numbers.empty());
  return numbers;
}

}  // namespace

TEST_CASE("moved folders: a run that begins or ends in one writes nothing into its successor") {
  for (const Row& row : kRows) {
    CAPTURE(row.train);
    const Shell shell;
    const std::string prepare = fmt::format("rm -rf run old; {}", [&] {
      if (row.run.empty()) return std::string("true");
      return fmt::format("mkdir run && (cd whole && cp {} ../run)", row.run);
    }());
    if (!row.run.empty()) REQUIRE(shell.run(kRows[2].train + " && mv run whole").code == 0);
    REQUIRE(shell.run(prepare).code == 0);
    const std::vector<Operation> all = operations(shell, "run", row.train);
    // The other run's folder has files of the same names.
    REQUIRE(shell
                .run("mv run other && find other -type f -exec sh -c "
                     "'echo of the other > \"$1\"' - '{}' ';' && cp -R other kept")
                .code == 0);
    for (const size_t at : moments(all, row.until))
      for (const std::string& happening : kHappenings) {
        CAPTURE(at);
        CAPTURE(all[at - 1].kind);
        CAPTURE(all[at - 1].name);
        CAPTURE(happening);
        const Ended ended =
            shell.run(fmt::format("{}; FAULT_COMMAND='{}' {}{}", prepare, happening,
                                  with_fault(shell, "run", "shell", at), row.train));
        CAPTURE(ended.err);
        CHECK(ended.code == 1);
        CHECK(contains(ended.err,
                       "the folder of the run was moved or removed while the program was running"));
        const bool other = contains(happening, "other");
        CHECK(fs::exists(shell / "run") == other);
        const Ended same = shell.run(other ? "diff -r run kept" : "diff -r other kept");
        CHECK(same.out == "");
      }
  }
}

TEST_CASE("moved folders: a shortlist is written beside the model that it was learned for") {
  const Shell shell;
  REQUIRE(shell
              .run(kRows[1].train + " && cp -R run whole && mv run other && "
                                    "echo of the other > other/shortlist.safetensors && "
                                    "cp -R other kept")
              .code == 0);
  const std::string learn =
      PROGRAM_TRANSLATE " shortlist --model \"$PWD/run\" --source text --target text";
  REQUIRE(shell.run("cp -R whole run").code == 0);
  const std::vector<Operation> all = operations(shell, "run", learn);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind != "open" || !all[i].name.starts_with("shortlist")) continue;
    const Ended ended = shell.run(fmt::format(
        "rm -rf run; cp -R whole run; FAULT_COMMAND='mv run old && cp -R other run' {}{}",
        with_fault(shell, "run", "shell", i + 1), learn));
    CAPTURE(ended.err);
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, "the folder of the run was moved or removed"));
    CHECK(shell.run("diff -r run kept").out == "");
  }
  CHECK(fs::exists(shell / "old/shortlist.safetensors"));
}

}  // namespace tern::test
