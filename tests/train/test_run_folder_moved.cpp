// Folders of runs that are moved, removed or replaced during the run: no file of another run is
// touched. Links, pipes and folders in place of a run's files: nothing is written through them.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>

#include "tern/core/io/atomic_file.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/train/train_fixture.h"

namespace tern::test::test_run_folder_moved {
namespace {

namespace fs = std::filesystem;

using Content = std::map<std::string, std::string>;

// The files of a folder, which need not exist, with their bytes. Event files have only their names,
// since a run continues to write to the one that it has opened.
Content content(const std::string& folder) {
  Content files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    files[name] = name.starts_with("events.") ? "" : read_file(it->path().string());
  }
  return files;
}

LoopOptions writes_everything(const std::string& folder) {
  return {.folder = folder,
          .best = {"rank", true},
          .keep = 1,
          .checkpoint_steps = 1,
          .tensorboard = true,
          .terminal = false};
}

// Begins another run in a folder.
std::shared_ptr<const RunLock> begin_run(const std::string& folder) {
  fs::create_directory(folder);
  for (const char* name :
       {"checkpoint.safetensors", "model.safetensors", "best.safetensors", "log.jsonl",
        "checkpoint-1.safetensors", "model-1.safetensors", "checkpoint-2.safetensors",
        "model-2.safetensors", "events.out.tfevents.1.host.1.0"})
    write_file(folder + "/" + name, "the other's");
  return std::make_shared<const RunLock>(folder);
}

struct Happening {
  std::string name;
  // Changes the folder "run" of the run in `dir`. Returns the lock of another run, if one begins.
  std::function<std::shared_ptr<const RunLock>(const TempDir&)> happen;
};

void move_away(const TempDir& dir) { fs::rename(dir / "run", dir / "moved"); }

const std::vector<Happening>& happenings() {
  static const std::vector<Happening> all = {
      {"moved",
       [](const TempDir& dir) {
         move_away(dir);
         return nullptr;
       }},
      {"removed",
       [](const TempDir& dir) {
         fs::remove_all(dir / "run");
         return nullptr;
       }},
      {"moved, and another run begun",
       [](const TempDir& dir) {
         move_away(dir);
         return begin_run(dir / "run");
       }},
      {"removed, and another run begun",
       [](const TempDir& dir) {
         fs::remove_all(dir / "run");
         return begin_run(dir / "run");
       }},
      {"replaced by a link to the folder of another run",
       [](const TempDir& dir) {
         move_away(dir);
         auto lock = begin_run(dir / "other");
         fs::create_directory_symlink(dir / "other", dir / "run");
         return lock;
       }},
      {"its lock removed, and another run begun",
       [](const TempDir& dir) {
         fs::remove(dir / "run/lock");
         return begin_run(dir / "run");
       }},
  };
  return all;
}

// Trains, and calls `happen` in the loss of that batch, or, for batch 0, in the evaluation after
// the second epoch.
template <class F>
Outcome train_with(Training& t, int64_t batch, F happen) {
  int64_t evaluations = 0;
  t.before_batch = [&, batch](int64_t number) {
    if (number == batch) happen();
  };
  t.evaluated = [&, batch] {
    if (batch == 0 && ++evaluations == 2) happen();
  };
  return t.loop.run();
}

// Batches that cover each interval between two files of a run: an epoch has six batches in two
// steps.
const std::vector<int64_t> kMoments = {1, 5, 7, 18, 0};

constexpr const char* kGone =
    "the folder of the run was moved or removed while the program was running";

}  // namespace

TEST_CASE("run folder: a run whose folder is gone ends without touching another run's files") {
  for (const Happening& h : happenings())
    for (const int64_t moment : kMoments)
      for (const bool programs_lock : {false, true}) {
        if (programs_lock && moment != 7) continue;
        CAPTURE(h.name);
        CAPTURE(moment);
        CAPTURE(programs_lock);
        const TempDir dir;
        const std::string folder = dir / "run";
        Content before;
        std::shared_ptr<const RunLock> other;
        {
          LoopOptions options = writes_everything(folder);
          fs::create_directory(folder);
          if (programs_lock) options.lock = std::make_shared<const RunLock>(folder);
          Training t(options);
          CHECK_THROWS_WITH_AS(train_with(t, moment,
                                          [&] {
                                            other = h.happen(dir);
                                            before = content(folder);
                                          }),
                               doctest::Contains(kGone), WriteError);
          if (programs_lock) CHECK_THROWS_AS(t.loop.check_folder(), WriteError);
        }
        CHECK(content(folder) == before);
        CHECK(fs::exists(folder) == (other != nullptr));
        if (other) CHECK(other->in_place());
      }
}

TEST_CASE("run folder: a file that is written while the folder is moved goes into the moved one") {
  const TempDir dir;
  Training t(writes_everything(dir / "run"));
  Content other;
  const auto replaced = [&](const RunFolder& here) {
    move_away(dir);
    const auto lock = begin_run(dir / "run");
    other = content(dir / "run");
    here.append_log("{}");
  };
  CHECK_THROWS_WITH_AS(train_with(t, 8, [&] { t.loop.write(replaced); }), doctest::Contains(kGone),
                       WriteError);
  CHECK(read_file(dir / "moved/log.jsonl").ends_with("{}\n"));
  other.erase("lock");
  CHECK(content(dir / "run") == other);
}

TEST_CASE("run folder: a run resumes in the moved folder and ends like an uninterrupted one") {
  const TempDir dir;
  Training whole(writes_everything(dir / "whole"));
  REQUIRE(whole.loop.run() == Outcome::finished);
  {
    Training t(writes_everything(dir / "run"));
    CHECK_THROWS_AS(train_with(t, 8, [&] { move_away(dir); }), WriteError);
  }
  Training again(writes_everything(dir / "moved"));
  REQUIRE(again.loop.resume());
  REQUIRE(again.loop.run() == Outcome::finished);
  CHECK(read_file(dir / "moved/model.safetensors") == read_file(dir / "whole/model.safetensors"));
}

TEST_CASE("run folder: a folder that is moved and linked back is the same folder") {
  const TempDir dir;
  Training t(writes_everything(dir / "run"));
  CHECK(train_with(t, 8, [&] {
          move_away(dir);
          fs::create_directory_symlink(dir / "moved", dir / "run");
        }) == Outcome::finished);
  CHECK_FALSE(fs::exists(dir / "moved/lock"));
}

TEST_CASE("run lock: files written through it go into its folder, even if that was moved") {
  for (const Happening& h : happenings()) {
    CAPTURE(h.name);
    const TempDir dir;
    fs::create_directory(dir / "run");
    const RunLock lock(dir / "run");
    std::shared_ptr<const RunLock> other;
    Content before;
    bool begun = false;
    const auto write = [&](const RunFolder& here) {
      begun = true;
      write_file_atomically(here.file("first"), "1");
      other = h.happen(dir);
      before = content(dir / "run");
      if (h.name.starts_with("moved")) {
        write_file_atomically(here.file("second"), "2");
        CHECK(content(dir / "moved").contains("second"));
      }
      fail("what a reader says of files that are gone");
    };
    CHECK_THROWS_WITH_AS(lock.write(write), doctest::Contains(kGone), WriteError);
    CHECK(begun);
    CHECK(content(dir / "run") == before);
    begun = false;
    CHECK_THROWS_WITH_AS(lock.write(write), doctest::Contains(kGone), WriteError);
    CHECK_FALSE(begun);
  }
}

TEST_CASE("run lock: errors of files written through it show the folder's usual name") {
  const TempDir dir;
  const RunLock lock(dir.path());
  fs::create_directory(dir / "file");
  const auto write = [](const std::string& name) {
    return [name](const RunFolder& here) { write_file_atomically(here.file(name), "1"); };
  };
  CHECK_THROWS_WITH_AS(lock.write(write("file")),
                       fmt::format("write: {} is not a regular file", dir / "file").c_str(),
                       IoError);
  CHECK_THROWS_WITH_AS(
      lock.write(write("no/file")),
      doctest::Contains(fmt::format("write: {}: cannot create", dir / "no/file").c_str()),
      WriteError);
  lock.write(write("fine"));
  CHECK(read_file(dir / "fine") == "1");
}

// ---- Foreign files in place of a run's files --------------------------------------------------

namespace {

constexpr const char* kMine = "nobody may write here\n";

struct Plant {
  std::string name;
  std::function<void(const TempDir&, const std::string& path)> put;
};

const std::vector<Plant>& plants() {
  static const std::vector<Plant> all = {
      {"a link to a file",
       [](const TempDir& dir, const std::string& path) {
         fs::create_symlink(write_file(dir / "mine", kMine), path);
       }},
      {"a link to nothing",
       [](const TempDir& dir, const std::string& path) {
         fs::create_symlink(dir / "nothing", path);
       }},
      {"a link to a pipe",
       [](const TempDir& dir, const std::string& path) {
         REQUIRE(::mkfifo((dir / "pipe").c_str(), 0666) == 0);
         fs::create_symlink(dir / "pipe", path);
       }},
      {"a pipe",
       [](const TempDir&, const std::string& path) { REQUIRE(::mkfifo(path.c_str(), 0666) == 0); }},
      {"a folder", [](const TempDir&, const std::string& path) { fs::create_directory(path); }},
  };
  return all;
}

// Checks that the targets of the planted links are unchanged.
void check_untouched(const TempDir& dir) {
  if (fs::exists(dir / "mine")) CHECK(read_file(dir / "mine") == kMine);
  CHECK_FALSE(fs::exists(dir / "nothing"));
  if (fs::exists(dir / "pipe")) CHECK(fs::is_fifo(dir / "pipe"));
}

}  // namespace

TEST_CASE("run lock: a file that is no lock is refused at once and stays unchanged") {
  for (const Plant& plant : plants()) {
    CAPTURE(plant.name);
    const TempDir dir;
    plant.put(dir, dir / "lock");
    const fs::file_type type = fs::symlink_status(dir / "lock").type();
    CHECK_NOTHROW(check_unlocked(dir.path()));
    CHECK_THROWS_WITH_AS(RunLock{dir.path()},
                         (dir / "lock is not a regular file").insert(0, "write: ").c_str(),
                         IoError);
    CHECK((fs::symlink_status(dir / "lock").type() == type));
    check_untouched(dir);
  }
  for (const std::string text : {"mine\n", "4711 machine\nand more\n", "4711 a b\n", "-1 m\n",
                                 "4711", "4711\n", "4711 ", "4711 machine", " machine\n"}) {
    CAPTURE(text);
    const TempDir dir;
    write_file(dir / "lock", text);
    CHECK_THROWS_WITH_AS(RunLock{dir.path()},
                         doctest::Contains("this file is not the lock of a run"), IoError);
    CHECK(read_file(dir / "lock") == text);
  }
  const TempDir dir;
  for (const char filled : {'1', '\0'}) {
    const std::string large(100000, filled);
    write_file(dir / "lock", large);
    CHECK_THROWS_AS(RunLock{dir.path()}, IoError);
    CHECK(read_file(dir / "lock") == large);
  }
  // The lock of a killed process does not block a run, even if a loss of power filled it with
  // zeros.
  for (const std::string& text : {std::string(), std::string("4711 machine\n"),
                                  std::string(13, '\0'), std::string(1, '\0')}) {
    CAPTURE(text);
    write_file(dir / "lock", text);
    const RunLock lock(dir.path());
    CHECK(lock.found_abandoned() == !text.empty());
  }
  CHECK_FALSE(fs::exists(dir / "lock"));
}

TEST_CASE("run folder: a run does not write through files put in place of its own") {
  for (const std::string name :
       {"log.jsonl", "checkpoint.safetensors", "model.safetensors", "best.safetensors"})
    for (const Plant& plant : plants())
      for (const int64_t moment : {5, 0}) {
        CAPTURE(name);
        CAPTURE(plant.name);
        CAPTURE(moment);
        const TempDir dir;
        Training t(writes_everything(dir / "run"));
        try {
          const Outcome outcome = train_with(t, moment, [&] {
            fs::remove(dir / "run/" + name);
            plant.put(dir, dir / "run/" + name);
          });
          CHECK(outcome == Outcome::finished);
        } catch (const IoError& e) {
          CHECK(std::string(e.what()) ==
                fmt::format("write: {} is not a regular file", dir / "run/" + name));
        }
        check_untouched(dir);
      }
}

TEST_CASE("run folder: a resumed run does not write through files put in place of its own") {
  for (const std::string name : {"log.jsonl", "checkpoint.safetensors", "model.safetensors",
                                 "best.safetensors", "events.out.tfevents.1.host.1.0"})
    for (const Plant& plant : plants()) {
      CAPTURE(name);
      CAPTURE(plant.name);
      const TempDir dir;
      Training first(writes_everything(dir / "run"));
      CHECK_THROWS(train_with(first, 8, [] { fail("stopped"); }));
      fs::remove(dir / "run/" + name);
      plant.put(dir, dir / "run/" + name);
      Training again(writes_everything(dir / "run"));
      try {
        if (again.loop.resume()) {
          const Outcome outcome = again.loop.run();
          CHECK(outcome == Outcome::finished);
        }
      } catch (const IoError& e) {
        CHECK(std::string(e.what()).find(dir / "run/" + name) != std::string::npos);
      }
      check_untouched(dir);
    }
}

TEST_CASE("atomic files: temporary files are new, even if their names are taken") {
  const TempDir dir;
  const std::string target = dir / "file";
  uint64_t number = 0;
  {
    AtomicFile probe(target);
    const std::string name = content(dir.path()).begin()->first;  // file.PID.NUMBER.tmp
    const size_t end = name.rfind('.'), begin = name.rfind('.', end - 1) + 1;
    number = std::stoull(name.substr(begin, end - begin));
  }
  for (uint64_t i = 1; i <= plants().size(); ++i)
    plants()[i - 1].put(dir, fmt::format("{}.{}.{}.tmp", target, ::getpid(), number + i));
  AtomicFile file(target);
  file.write("x");
  file.commit();
  CHECK(read_file(target) == "x");
  check_untouched(dir);
}

TEST_CASE("atomic files: a file that was begun ends in its folder, even if that was moved") {
  const TempDir dir;
  fs::create_directory(dir / "run");
  AtomicFile file(dir / "run/file");
  file.write("new");
  fs::rename(dir / "run", dir / "moved");
  fs::create_directory(dir / "run");
  write_file(dir / "run/file", "the other's");
  file.commit();
  CHECK(read_file(dir / "moved/file") == "new");
  CHECK(content(dir / "run") == Content{{"file", "the other's"}});
  { AtomicFile unfinished(dir / "run/other"); }
  CHECK(content(dir / "run").size() == 1);
}

TEST_CASE("logs: reading a pipe is an error and does not wait") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "log.jsonl").c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(read_log(dir / "log.jsonl"), doctest::Contains("cannot be read"), IoError);
}

}  // namespace tern::test::test_run_folder_moved
