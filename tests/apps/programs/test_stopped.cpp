// The last lines of a run: a stopped run prints the command that resumes it, and a finished one the
// command that uses its weights, quoted for a shell.
#include <doctest/doctest.h>

#include <string>

#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/apps/trainings.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_stopped {
namespace {

/// The output of `command`, stopped by SIGTERM as soon as the shell condition `begun` is true.
std::string stopped(const std::string& command, const std::string& begun, const TempDir& dir) {
  const std::string script = command + " > said 2>&1 & for i in $(seq 600); do " + begun +
                             " && break; sleep .1; done; kill -TERM $!; wait $!; echo $?";
  const Ran ran = run_words({"sh", "-c", script}, with_programs(dir.path()));
  CHECK(ran.out == "130\n");
  return read_file(dir / "said");
}

TEST_CASE("programs: a stopped run prints a complete command that resumes it") {
  for (const Training& t : kPrograms) {
    CAPTURE(t.name);
    TempDir dir;
    write_training_data(dir.path());
    const std::string first = stopped(t.start(100'000) + " --threads 1 --out \"it's mine\"",
                                      "test -e \"it's mine/checkpoint.safetensors\"", dir);
    const std::string to_resume = "; to resume: ";
    const size_t at = first.find(to_resume);
    REQUIRE_MESSAGE(at != first.npos, first);
    std::string command = first.substr(at + to_resume.size());
    command.erase(command.find('\n'));
    CHECK(command == t.resume("'it'\\''s mine'"));
    const std::string again = stopped(command + " --threads 1", "grep -q 'resumes in' said", dir);
    CHECK(contains(again, to_resume + command + "\n"));
  }
}

TEST_CASE("programs: a finished run prints a complete command that uses its weights") {
  const std::string folder = "'it'\\''s mine'";
  for (const Training& t : kPrograms) {
    CAPTURE(t.name);
    TempDir dir;
    write_training_data(dir.path());
    const Ran ran = run_words({"sh", "-c", t.start() + " --threads 1 --out \"it's mine\" 2>&1"},
                              with_programs(dir.path()));
    CHECK(ran.code == 0);
    CHECK_MESSAGE(contains(ran.out, "\nto " + t.purpose + ": " + t.use + folder), ran.out);
    if (t.program == "train_cifar") continue;  // its command needs pictures
    const Ran used =
        run_words({"sh", "-c", t.use + folder + " --threads 1"}, with_programs(dir.path()));
    CHECK_MESSAGE(used.code == 0, used.err);
    if (t.program == "translate") CHECK_MESSAGE(used.err.empty(), used.err);  // no unknown words
  }
}

TEST_CASE("programs: a run started by ./run is resumed by ./run") {
  TempDir dir;
  const std::string said = stopped(
      "bash -c 'exec -a \"./run ntm\" ntm train --hidden 6 --slots 9 --width 4 --sequences 1e8 "
      "--every 6 --threads 1 --out it'",
      "test -e it/checkpoint.safetensors", dir);
  CHECK(contains(said, "; to resume: ./run ntm train --resume it\n"));
  CHECK(contains(read_file(dir / "it/run.json"), "\"./run ntm train --hidden 6"));
}

}  // namespace
}  // namespace tern::test::test_stopped
