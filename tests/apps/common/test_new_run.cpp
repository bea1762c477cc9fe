// The folder of a new run that is refused is removed again, without other files. Missing weights:
// the run is in its first epoch, or the file was lost.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/apps/common/training/folder.h"
#include "tern/apps/common/training/launch.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::test_new_run {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using test::write_file;

TEST_CASE("a refused new run removes the folders that it made, and nothing else") {
  TempDir dir;
  const std::string above = dir / "a", out = dir / "a/b";
  auto make = [&](bool keep) {
    NewRunGuard guard(out);
    fs::create_directories(out);
    guard.made(std::make_shared<const training::RunLock>(out));
    write_file(out + "/config.json", "{}");
    if (keep) guard.keep();
  };
  make(false);
  CHECK_FALSE(fs::exists(above));
  make(true);
  CHECK(fs::exists(out + "/config.json"));
  make(false);  // the folder existed before
  CHECK(fs::exists(out));
  fs::remove_all(out);
  write_file(above + "/other", "");
  make(false);
  CHECK_FALSE(fs::exists(out));
  CHECK(fs::exists(above + "/other"));
  { NewRunGuard never(dir / "c"); }  // refused before it made a folder
  CHECK(fs::exists(above));
}

TEST_CASE("a refused new run leaves a folder that another run has put in its place") {
  TempDir dir;
  const std::string out = dir / "run";
  std::shared_ptr<const training::RunLock> other;
  {
    NewRunGuard guard(out);
    fs::create_directory(out);
    guard.made(std::make_shared<const training::RunLock>(out));
    fs::rename(out, dir / "moved");
    fs::create_directory(out);
    other = std::make_shared<const training::RunLock>(out);
    write_file(out + "/config.json", "the other's");
  }
  CHECK(fs::exists(out + "/config.json"));
  CHECK(other->in_place());
}

TEST_CASE("weights that are not written yet are distinguished from lost ones") {
  TempDir dir;
  CHECK(folder_of("runs/a/model.safetensors") == "runs/a");
  CHECK(folder_of("model.safetensors") == ".");
  const std::string path = dir / "model.safetensors";
  check_first_epoch_over(path);  // no run: the reader of the file reports that it is missing
  write_file(dir / "checkpoint.safetensors", "");
  CHECK_THROWS_WITH_AS(check_first_epoch_over(path),
                       doctest::Contains("its first epoch has not ended"), IoError);
  write_file(dir / "log.jsonl", "{\"step\":1}\n");
  CHECK_THROWS_AS(check_first_epoch_over(path), IoError);
  write_file(dir / "log.jsonl", "{\"epoch\":1}\n");  // so the weights were lost
  check_first_epoch_over(path);
  write_file(dir / "log.jsonl", "");
  write_file(path, "");
  check_first_epoch_over(path);
}

}  // namespace
}  // namespace tern::apps::test_new_run
