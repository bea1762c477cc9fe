// The table that compares the results of runs, and their cost.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/tern/comparison.h"

namespace tern::apps::program {

/// Runs of one program on the same data.
using Runs = std::vector<const Run*>;

/// What the runs count: "epoch", with --eval-steps "evaluation", for a mixture "epoch or
/// evaluation". Each of these words gets `ending`.
std::string word_of(const Runs& runs, const char* ending = "");

/// The metrics of these runs, most important first, those of training last. Leaves out top-2 to
/// top-4, and best_top1, a repetition in runs of earlier versions.
std::vector<std::string> metrics_of(const Runs& runs);

/// A row for each run: results, cost, then training metrics. The best value of each column of
/// results is bold, unless the runs measured it on different samples or in different units; a note
/// below the table says so.
std::string scores(const Runs& runs);

}  // namespace tern::apps::program
