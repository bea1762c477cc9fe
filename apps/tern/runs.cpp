#include "tern/apps/tern/runs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tern/apps/common/folder.h"
#include "tern/core/base/error.h"

namespace tern::apps::program {

namespace fs = std::filesystem;

namespace {

Run load_run(const std::string& path) {
  const train::RunFolder folder{path};
  std::error_code error;
  check_folder(path, "tern report: " + path);
  check(fs::is_regular_file(folder.log(), error),
        "tern report: {}: this is not the folder of a run: it has no log.jsonl", path);
  return {.name = path,
          .path = path,
          .record = load_run_record(folder).value_or(RunRecord{}),
          .log = train::read_log(folder.log())};
}

// The last `count` parts of a path.
std::string ending(const fs::path& path, int count) {
  fs::path out;
  fs::path at = path;
  for (int i = 0; i < count && at.has_relative_path(); ++i, at = at.parent_path())
    out = out.empty() ? at.filename() : at.filename() / out;
  return out.empty() ? path.string() : out.string();
}

// As many parts of the paths as make names that are all different.
void name_runs(std::vector<Run>& runs) {
  constexpr int kMostParts = 16;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    std::vector<std::string> names;
    for (Run& run : runs) {
      fs::path path = fs::path(run.path).lexically_normal();
      if (!path.has_filename()) path = path.parent_path();  // a slash at the end
      names.push_back(run.name = ending(fs::absolute(path).lexically_normal(), parts));
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) == names.end()) return;
  }
}

}  // namespace

const train::EpochRecord* Run::best_epoch() const {
  if (log.epochs.empty()) return nullptr;
  const std::string& metric = record.best.metric;
  const bool known =
      std::all_of(log.epochs.begin(), log.epochs.end(),
                  [&](const train::EpochRecord& e) { return !metric.empty() && e.has(metric); });
  return known ? &train::best_epoch(log.epochs, record.best) : &log.epochs.back();
}

std::vector<Run> load_runs(const std::vector<std::string>& folders) {
  check(!folders.empty(), "tern report: give the folders of runs");
  std::vector<Run> runs;
  for (const std::string& path : folders) {
    runs.push_back(load_run(path));
    std::error_code error;
    for (size_t i = 0; i + 1 < runs.size(); ++i)
      check(!fs::equivalent(runs[i].path, path, error), "tern report: {} and {} are the same run",
            runs[i].path, path);
  }
  name_runs(runs);
  return runs;
}

}  // namespace tern::apps::program
