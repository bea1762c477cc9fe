// The table of what compared runs reached, and what that cost.
#pragma once

#include <string>
#include <vector>

#include "tern/apps/tern/comparison.h"

namespace tern::apps::program {

/// Runs of one program on the same data.
using Runs = std::vector<const Run*>;

/// What all closed epochs took.
double seconds_of(const Run& run);

/// What the runs count: "epoch", with --eval-steps "evaluation", or "epoch or evaluation", each
/// word with this ending.
std::string word_of(const Runs& runs, const char* ending = "");

/// The metrics of these runs, in the order in which people compare them; those of training last.
/// Runs of earlier versions have one that repeats another, of the best epoch so far. Of top-1 to
/// top-5, the first and the last.
std::vector<std::string> metrics_of(const Runs& runs);

/// A row for each run: results first, then what they cost, then numbers of training. The best of
/// each column of results is bold, unless the runs measured it on other samples or in other units:
/// a note below the table says so.
std::string scores(const Runs& runs);

}  // namespace tern::apps::program
