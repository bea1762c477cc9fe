// Pairs of sentences that are translations of each other, from files. A report counts skipped
// pairs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tern::datasets {

struct SentencePair {
  std::string source, target;
  bool operator==(const SentencePair&) const = default;
};

struct PairOptions {
  bool reverse = false;   ///< swap source and target
  int64_t first = 0;      ///< number of pairs to keep, from the beginning; 0: all
  int64_t max_words = 0;  ///< skip pairs with a longer side (words between spaces); 0: no limit
};

/// Counts of a file's lines, or of the pairs passed to a filter.
struct PairReport {
  int64_t lines = 0;                            ///< lines read: kept + empty + too_long
  int64_t kept = 0;                             ///< pairs returned
  int64_t empty = 0;                            ///< skipped: a side has only white space
  int64_t too_long = 0;                         ///< skipped: a side exceeds the limit
  int64_t first_empty = 0, first_too_long = 0;  ///< numbers of the first such lines, from 1
  int64_t limit = 0;                            ///< length limit in `unit`; 0: none
  std::string unit = "words";
  std::string numbered = "in line";  ///< what the numbers of the first ones mean; or "is pair"
  /// Of a table: the first line with more than two columns, and how many it has; 0: none.
  int64_t first_wide = 0, columns = 0;
  bool operator==(const PairReport&) const = default;

  /// Counts a pair whose sides have these lengths. Returns whether it is kept.
  bool count(int64_t source, int64_t target);
  /// Whether a user should see the summary: something in the file is not used.
  bool leaves_out() const { return kept != lines || first_wide > 0; }
  /// "28998 of 29000 pairs; left out: 2 with an empty side (the first in line 7)".
  std::string summary() const;
};

struct Pairs {
  std::vector<SentencePair> pairs;
  PairReport report;
};

/// Lines "source TAB target", as on https://www.manythings.org/anki. Further columns are not used;
/// the report says so.
/// IoError: as read_lines, and a line with text but without a TAB (with its number).
Pairs read_pairs_tsv(const std::string& path, const PairOptions& options = {});

/// Line i of one file translates line i of the other. Reads both files to their ends, whatever
/// `first` is. IoError: as read_aligned.
Pairs read_pairs(const std::string& source_path, const std::string& target_path,
                 const PairOptions& options = {});

}  // namespace tern::datasets
