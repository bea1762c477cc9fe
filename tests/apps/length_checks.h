// Checks of --steps and --eval-steps that every training program passes.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tern/apps/common/training/training_options.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/same_bits.h"
#include "tern/train/checkpoint.h"
#include "tern/train/run_folder.h"
#include "tern/train/run_log.h"

namespace tern::test {

inline constexpr apps::LengthOptions kSevenSteps{.steps = 7, .eval_steps = 3};

inline std::vector<int64_t> evaluated_steps(const training::RunFolder& folder) {
  std::vector<int64_t> steps;
  for (const training::EpochRecord& e : training::read_log(folder.log()).epochs)
    steps.push_back(e.steps);
  return steps;
}

/// Checks a run of seven steps with a constant rate and an evaluation after every three steps and
/// at the end. `resume` makes it nine steps long; `nine` is a run of nine steps from its start.
template <class Resume>
void check_counted_in_steps(const training::RunFolder& folder, const training::RunFolder& nine,
                            Resume resume) {
  CHECK(evaluated_steps(folder) == std::vector<int64_t>{3, 6, 7});
  const std::string page = read_file(folder.file("report.html"));
  CHECK(contains(page, "7 steps"));
  CHECK(contains(page, "evaluated every 3 steps"));
  CHECK(contains(page, "<summary>Every evaluation</summary>"));
  CHECK(contains(page, "<p>3 evaluations in "));
  REQUIRE(resume() == 0);
  CHECK(evaluated_steps(folder) == std::vector<int64_t>{3, 6, 7, 9});
  CHECK(evaluated_steps(nine) == std::vector<int64_t>{3, 6, 9});
  const SafeTensors a = training::load_checkpoint(folder.checkpoint()),
                    b = training::load_checkpoint(nine.checkpoint());
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    CAPTURE(a.tensors[i].first);
    CHECK(same_bits(a.tensors[i].second, b.tensors[i].second));
  }
}

}  // namespace tern::test
