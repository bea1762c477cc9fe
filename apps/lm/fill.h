// Words for the gaps of a text: what a BERT thinks stands at each [MASK].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/lm/folder.h"

namespace tern::apps::lm {

struct FilledText {
  struct Guess {
    std::string piece;
    double probability;
  };
  std::vector<std::vector<Guess>> gaps;  ///< for each [MASK], the likeliest first
  std::string text;                      ///< with the likeliest of each
};

/// Ids without [CLS] and [SEP]. Error: no [MASK] among them, or more than the model takes.
FilledText fill_ids(const LoadedBert& bert, const std::vector<int64_t>& ids, int64_t guesses = 5);

/// Lines for a terminal: the text filled, and below it the guesses for each gap.
std::string describe_filled(const FilledText& filled);

}  // namespace tern::apps::lm
