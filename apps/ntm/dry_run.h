// What a training of ntm takes, without running it.
#pragma once

#include "tern/apps/ntm/config.h"
#include "tern/train/summary.h"

namespace tern::apps::ntm {

/// Of a step on the longest batch among the first ones. The model takes no memory.
Summary summary_of_run(const NtmConfig& config);

/// Prints it (apps/common/dry_run.h). Gives the program's exit code.
int dry_run(const NtmConfig& config);

}  // namespace tern::apps::ntm
