// --dry-run of the training programs: what the model is, what a step takes, and whether it fits
// this machine. Nothing is trained, and nothing on disk changes.
#pragma once

#include <optional>
#include <string>

#include "tern/apps/common/launch.h"
#include "tern/apps/common/machine.h"
#include "tern/train/summary.h"

namespace tern::apps {

struct DryRunOptions {
  Facts facts = {};             ///< said first: model, data, recipe
  int64_t waiting_batches = 0;  ///< that a loader keeps ready beside the one in use
};

/// The most memory that the process takes, in bytes: the step, and what the allocator keeps for
/// reuse.
int64_t needed_bytes(const Summary& summary, const DryRunOptions& options);

/// "needs up to 402 MB; 1,903 MB are free on this machine: it fits". The second: whether it does.
std::pair<std::string, bool> verdict(int64_t needed, const std::optional<FreeMemory>& free);

/// A copy of a batch's ids; in a ShapeOnlyScope one without memory.
Tensor copy_of(const Tensor& ids);

/// Prints facts, summary and verdict. Gives the program's exit code: 0, or 1 if it does not fit.
int report_dry_run(const Summary& summary, const DryRunOptions& options = {});

}  // namespace tern::apps
