// What lm does with BERT, on files and terminal. Each gives the program's exit code.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "tern/apps/common/launch.h"
#include "tern/apps/lm/options.h"
#include "tern/core/io/safetensors.h"

namespace tern::apps::lm {

/// As start_training, of a bert; `config` is that of the options with absolute paths.
int start_bert_training(TrainConfig config, const LmOptions& options);
/// As resume_training: the run in `folder`, whose checkpoint is `state`, if it has one.
int resume_bert_training(const TrainConfig& config, const LmOptions& options,
                         const LockedFolder& folder, std::optional<SafeTensors> state,
                         int64_t epochs_before);
/// Writes what may stand at each [MASK].
int fill_gaps(const LmOptions& options, std::ostream& out);
/// Masks words of the texts as training does, always the same ones, and says how many are found.
int evaluate_bert(const LmOptions& options);

}  // namespace tern::apps::lm
