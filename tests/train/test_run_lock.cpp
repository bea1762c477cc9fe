// The lock on the folder of a run, against a second process that holds it; what counts as a run in
// a folder; and atomic files that cannot be written.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <memory>

#include "tern/core/io/atomic_file.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_run_lock {
namespace {

namespace fs = std::filesystem;

/// A process that holds the lock of a folder until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& folder) {
    std::array<int, 2> ready{};
    REQUIRE(::pipe(ready.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const RunLock lock(folder);
      if (::write(ready[1], "x", 1) == 1) ::pause();
      ::_exit(0);
    }
    char c = 0;
    REQUIRE(::read(ready[0], &c, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() { kill(); }
  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("run lock: a second process is refused with the id of the first, until that has ended") {
  const TempDir dir;
  const std::string folder = dir / "run";
  fs::create_directory(folder);
  CHECK_NOTHROW(check_unlocked(folder));
  Holder holder(folder);
  const std::string told = fmt::format(
      "{}: process {} is using the run in this folder; wait until it has ended, or choose "
      "another folder",
      folder, holder.pid());
  CHECK_THROWS_WITH_AS(RunLock{folder}, told.c_str(), Error);
  CHECK_THROWS_WITH_AS(check_unlocked(folder), told.c_str(), Error);
  Training t({.folder = folder});
  CHECK_THROWS_WITH_AS(t.loop.run(), told.c_str(), Error);
  CHECK_FALSE(fs::exists(t.loop.folder().checkpoint()));
  holder.kill();
  CHECK(fs::exists(RunFolder{folder}.lock()));  // the killed process did not remove it
  CHECK_NOTHROW(check_unlocked(folder));
  {
    const RunLock lock(folder);
    CHECK(lock.held());
    CHECK(lock.found_abandoned());
    CHECK_THROWS_AS(RunLock{folder}, Error);
    CHECK(fs::exists(RunFolder{folder}.lock()));  // a refused lock does not remove it
  }
  CHECK_FALSE(fs::exists(RunFolder{folder}.lock()));
  CHECK(t.loop.run() == Outcome::finished);
  CHECK_FALSE(fs::exists(RunFolder{folder}.lock()));
  CHECK_FALSE(RunLock(folder).found_abandoned());
}

TEST_CASE("run lock: a loop holds it from resume() to the end of run(), or uses the program's") {
  const TempDir dir;
  const LoopOptions options{.folder = dir / "run"};
  {
    Training t(options);
    t.evaluated = [&] { CHECK_THROWS_AS(RunLock{options.folder}, Error); };
    REQUIRE(t.loop.run() == Outcome::finished);
    CHECK_NOTHROW(RunLock{options.folder});
    Training again(options);
    REQUIRE(again.loop.resume());
    CHECK_THROWS_AS(RunLock{options.folder}, Error);
    REQUIRE(again.loop.run() == Outcome::finished);
    CHECK_NOTHROW(RunLock{options.folder});
  }
  LoopOptions own = options;
  own.lock = std::make_shared<const RunLock>(options.folder);
  own.epochs = 4;
  Training t(own);
  REQUIRE(t.loop.resume());
  REQUIRE(t.loop.run() == Outcome::finished);
  CHECK_THROWS_AS(RunLock{options.folder}, Error);  // the program still has it
}

TEST_CASE("run folder: without checkpoint, weights or log it holds no run; abandoned files go") {
  const TempDir dir;
  const RunFolder folder{dir / "run"};
  folder.make();
  CHECK_FALSE(folder.holds_run());
  folder.write_log({});
  CHECK_FALSE(folder.holds_run());
  // Process ids are below 2^22, so no process has this one.
  const std::string dead = folder.checkpoint() + ".99999999.0.tmp";
  const std::string alive = fmt::format("{}.{}.0.tmp", folder.checkpoint(), ::getppid());
  const std::string users = folder.file("notes.tmp");
  for (const std::string& file : {dead, alive, users}) tern::detail::append_to_file(file, "x");
  Training t({.folder = folder.path});
  REQUIRE(t.loop.run() == Outcome::finished);
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(alive));
  CHECK(fs::exists(users));
  fs::remove(folder.checkpoint());
  CHECK(folder.holds_run());  // it has weights and lines in the log
  fs::remove(folder.weights());
  CHECK(folder.holds_run());
}

TEST_CASE("atomic files: a failed write is a WriteError with path and reason") {
  const TempDir dir;
  const std::string nowhere = dir / "none/file";
  for (const auto& write : {std::function([&] { AtomicFile{nowhere}; }),
                            {[&] { tern::detail::append_to_file(nowhere, "x"); }}})
    CHECK_THROWS_WITH_AS(write(), doctest::Contains("none/file: c"), WriteError);
  tern::detail::append_to_file(dir / "log", "a\n");
  tern::detail::append_to_file(dir / "log", "b\n");
  CHECK(read_file(dir / "log") == "a\nb\n");
  CHECK_THROWS_WITH_AS(tern::detail::append_to_file("/dev/full", "x"),
                       "write: /dev/full is not a regular file", IoError);
  {
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const rlimit four = {4, limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &four) == 0);
    CHECK_THROWS_WITH_AS(tern::detail::append_to_file(dir / "log", "c\n"),
                         doctest::Contains("log: cannot write: File too large"), WriteError);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    std::signal(SIGXFSZ, before);
  }
  CHECK_THROWS_AS(RunFolder{dir / "log"}.make(), WriteError);
}

}  // namespace tern::test::test_run_lock
