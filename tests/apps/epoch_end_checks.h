// Checks of --patience, --keep and --schedule plateau that every training program passes.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tern/apps/common/training/run_record.h"
#include "tern/apps/common/training/training_options.h"
#include "tern/tests/support/data_files.h"
#include "tern/train/run_folder.h"
#include "tern/train/run_log.h"

namespace tern::test {

/// A learning rate that changes no weight, so that no epoch is better than the first.
inline constexpr double kNoRate = 1e-30;

inline constexpr apps::EpochEndOptions kEarlyEnd = {
    .patience = 3, .keep = 2, .plateau_patience = 0, .plateau_factor = 0.25};

/// Checks a run of more than four epochs with kEarlyEnd, kNoRate and --schedule plateau. `metric`
/// decides which epoch is the best.
inline void check_ended_early(const training::RunFolder& folder, const std::string& metric) {
  const training::RunLog log = training::read_log(folder.log());
  REQUIRE(log.epochs.size() == 4);
  CHECK(contains(log.epochs.back().ended, metric + " was no better in 3 epochs than "));
  CHECK(contains(log.epochs.back().ended, " in epoch 1"));
  for (size_t i = 0; i < 4; ++i)  // epochs 2 and 3 were no better, so 3 and 4 have lower rates
    CHECK(log.epochs[i].lr / kNoRate == doctest::Approx(i < 2    ? 1
                                                        : i == 2 ? 0.25
                                                                 : 0.0625)
                                            .epsilon(1e-12));
  for (int64_t epoch : {1, 2, 3, 4}) {
    CAPTURE(epoch);
    CHECK(std::filesystem::exists(folder.checkpoint(epoch)) == (epoch > 2));
    CHECK(std::filesystem::exists(folder.weights(epoch)) == (epoch != 2));  // 1 is the best
  }
  const auto record = apps::load_run_record(folder);
  REQUIRE(record.has_value());
  const std::string page = read_file(folder.file("report.html"));
  CHECK(contains(page, "patience 3, keeps 2 epochs"));
  CHECK(contains(page, "<p class=\"state\">Ended early, after epoch 4 of "));
  CHECK(contains(page, ": " + metric + " was no better in 3 epochs than "));
}

/// Checks the same run after resume(patience): with more patience it ends later, with none it runs
/// to its last epoch.
template <class Resume>
void check_other_patience(const training::RunFolder& folder, size_t epochs, Resume resume) {
  REQUIRE(resume(int64_t{4}) == 0);
  const training::RunLog log = training::read_log(folder.log());
  CHECK(log.epochs.size() == 5);
  CHECK(contains(log.epochs.back().ended, " was no better in 4 epochs than "));
  CHECK(log.epochs[3].ended.empty());
  CHECK(contains(read_file(folder.file("report.html")), "patience 4 from here on; it was 3"));
  REQUIRE(resume(int64_t{0}) == 0);
  const training::RunLog whole = training::read_log(folder.log());
  CHECK(whole.epochs.size() == epochs);
  for (const training::EpochRecord& e : whole.epochs) CHECK(e.ended.empty());
  CHECK_FALSE(contains(read_file(folder.file("report.html")), ", patience"));
}

}  // namespace tern::test
