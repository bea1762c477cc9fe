// report.html of a run: one self-contained page.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/common/attention.h"
#include "tern/apps/common/html.h"
#include "tern/apps/common/run_page.h"
#include "tern/apps/ntm/evaluate.h"

namespace tern::apps::ntm {

/// Numbers of each step, as a picture shows them: time runs across.
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

/// What a model does with one sequence.
struct Episode {
  int64_t length = 0;
  double bits = 0;
  int64_t wrong = 0;
  Strip input, target, output, error;  ///< outputs are probabilities
  std::vector<Strip> weights;          ///< a head each; none for an LSTM
  std::vector<MemoryPicture> memory;   ///< after some steps
};

/// The first of a batch of one sequence of this length, drawn from the seed.
Episode observe(const SequenceModel& model, const datasets::SequenceTask& task, int64_t length,
                uint64_t seed);

/// The weightings of such a sequence for attention.h: steps down, slots across. Error: the
/// model has none.
AttentionSentence observe_weights(const SequenceModel& model, const datasets::SequenceTask& task,
                                  int64_t length, uint64_t seed);

/// A strip as a picture: with `signed_colours` numbers from -1 (blue) to 1 (red), else weightings
/// in the colours of attention.
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
