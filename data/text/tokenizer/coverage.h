// Measures whether a text resembles what a tokenizer has learned from.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/text/tokenizer/tokenizer.h"

namespace tern::datasets {

/// Parts of a line that occur in no training text.
struct Unseen {
  int64_t words = 0;                 ///< in the line; known marks and numbers do not count
  int64_t unknown = 0;               ///< unknown ones of these; BPE knows all words
  std::vector<std::string> scripts;  ///< scripts of its letters, such as "Cyrillic"
  bool capitals = false;             ///< capital letters, if the training had none
  bool capital_words = false;        ///< words all in capitals, if most of the line is
  bool small_letters = false;

  bool mostly_unknown() const { return 2 * unknown > words; }
  bool any() const {
    return mostly_unknown() || !scripts.empty() || capitals || capital_words || small_letters;
  }
  /// "5 of 7 words are unknown; letters of a script (Cyrillic) that the training's texts had not".
  std::string summary() const;
};

/// Infers from a tokenizer's words or merges which scripts and letter case its training texts had.
/// Fewer than 200 of them say nothing about case and script.
class TextCoverage {
 public:
  explicit TextCoverage(Tokenizer tokenizer);
  /// Checks a line of any text, after normalising it as the tokenizer does.
  Unseen look(std::string_view line) const;

 private:
  void add(std::string_view seen);

  Tokenizer tokenizer_;
  std::set<std::string_view> scripts_;
  bool capitals_ = false, capital_words_ = false, small_ = false;
  bool judges_ = false;  // judges case and script
};

}  // namespace tern::datasets
