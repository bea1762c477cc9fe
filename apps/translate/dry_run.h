// What a training of translate takes, without running it.
#pragma once

#include "tern/apps/translate/corpus.h"
#include "tern/train/summary.h"

namespace tern::apps::translate {

/// Of a step on the batch of the first epoch that takes most. The model takes no memory.
Summary summary_of_run(const TrainConfig& config, const Corpus& corpus);

/// Prints it (apps/common/dry_run.h). Gives the program's exit code.
int dry_run(const TrainConfig& config, const Corpus& corpus, const PairFiles& files);

}  // namespace tern::apps::translate
