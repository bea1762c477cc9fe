// lm train --dry-run: what a training takes, before anything is computed.
#pragma once

#include "tern/apps/lm/bert_text.h"
#include "tern/apps/lm/corpus.h"
#include "tern/train/summary.h"

namespace tern::apps::lm {

/// Of a step on the largest batch; of a bert on that of the first epoch.
Summary summary_of_run(const TrainConfig& config, const Corpus& corpus);
Summary summary_of_run(const TrainConfig& config, const BertCorpus& corpus,
                       const data::WordPiece& pieces);

/// Prints it (apps/common/dry_run.h) under what would run. Gives the program's exit code.
int report_run(const TrainConfig& config, const Summary& summary, const Texts& texts,
               int64_t steps);

}  // namespace tern::apps::lm
