// report.html of a run: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/pages/attention.h"
#include "tern/apps/common/pages/html.h"
#include "tern/apps/common/pages/run_page.h"
#include "tern/apps/ntm/evaluate.h"

namespace tern::apps::ntm {

/// Numbers for each step, for a picture in which time runs from left to right.
struct Strip {
  std::string title;
  int64_t steps = 0, rows = 0;
  std::vector<float> values;  ///< (steps, rows)
};

/// The memory after a step.
struct MemoryPicture {
  int64_t step = 0, slots = 0, width = 0;
  std::vector<float> values;  ///< (slots, width)
};

/// The behaviour of a model on one sequence.
struct Episode {
  int64_t length = 0;
  double bits = 0;
  int64_t wrong = 0;
  Strip input, target, output, error;  ///< outputs are probabilities
  std::vector<Strip> weights;          ///< one per head; none for an LSTM
  std::vector<MemoryPicture> memory;   ///< after some of the steps
};

/// Runs the model on one random sequence of this length; `seed` determines the sequence.
Episode observe(const SequenceModel& model, const datasets::SequenceTask& task, int64_t length,
                uint64_t seed);

/// The head weightings on such a sequence, for attention.h: steps down, slots across. Error: the
/// model has none.
AttentionSentence observe_weights(const SequenceModel& model, const datasets::SequenceTask& task,
                                  int64_t length, uint64_t seed);

/// A strip as a picture. `signed_colours`: from -1 (blue) to 1 (red); else the colours of
/// attention.
Bitmap strip_bitmap(const Strip& strip, bool signed_colours);

struct NtmReport {
  RunSummary run;
  datasets::SequenceTask task;
  std::vector<LengthScore> lengths;
  std::vector<Episode> episodes;
};

/// The page as text (write it with write_file_atomically).
std::string make_report(const NtmReport& report);

}  // namespace tern::apps::ntm
