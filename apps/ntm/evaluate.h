// Evaluates a model on new sequences: cost in bits and wrong bits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/apps/ntm/model.h"
#include "tern/dist/world.h"

namespace tern::apps::ntm {

struct SequenceScore {
  double bits = 0;     ///< mean cost per sequence
  double wrong = 0;    ///< mean number of wrong bits per sequence
  double perfect = 0;  ///< share of the sequences without a wrong bit
  double best = 0;     ///< n-grams: the cost of the best predictor, else 0
  int64_t sequences = 0;
  double target_bits = 0;  ///< mean number of target bits per sequence
};

/// Called between batches; returning false stops the evaluation.
using KeepOn = std::function<bool()>;

inline constexpr int64_t kValidationSequences = 160;  ///< used by validate()

/// The score on sequences of the training's sizes, the same sequences in every run; empty if
/// stopped. The ranks of `world` share them and get the same numbers as one process.
std::optional<SequenceScore> validate(const SequenceModel& model,
                                      const datasets::SequenceTask& task,
                                      const KeepOn& keep_on = {}, dist::World* world = nullptr);

struct LengthScore : SequenceScore {
  int64_t length = 0;
};

/// The scores on `count` sequences of each length, drawn from the seed and the length.
std::optional<std::vector<LengthScore>> score_lengths(const SequenceModel& model,
                                                      const datasets::SequenceTask& task,
                                                      const std::vector<int64_t>& lengths,
                                                      int64_t count, uint64_t seed,
                                                      const KeepOn& keep_on = {});

/// The lengths that a report shows: from the training lengths up to six times the longest.
std::vector<int64_t> report_lengths(const datasets::SequenceTask& task);

/// A heading and one line per length; for n-grams with the bits of the best predictor.
std::string length_table(const datasets::SequenceTask& task,
                         const std::vector<LengthScore>& scores);

}  // namespace tern::apps::ntm
