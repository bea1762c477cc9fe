// Whether a text is of the kind that a tokenizer has learned from.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/text/tokenizer.h"

namespace tern::data {

/// What a line has that no text of the training had.
struct Unseen {
  int64_t words = 0;                 ///< of the line, marks and numbers of which nothing is unknown
                                     ///< aside
  int64_t unknown = 0;               ///< of them; BPE knows all
  std::vector<std::string> scripts;  ///< of its letters: "Cyrillic"; those known by name
  bool capitals = false;             ///< capital letters at all
  bool capital_words = false;        ///< words in nothing but capitals, where most of it is in them
  bool small_letters = false;

  bool mostly_unknown() const { return 2 * unknown > words; }
  bool any() const {
    return mostly_unknown() || !scripts.empty() || capitals || capital_words || small_letters;
  }
  /// "5 of 7 words are unknown; letters of a script (Cyrillic) that the training's texts had not".
  std::string summary() const;
};

/// Knows what the tokenizer's words or merges say of its texts. Few of them (below 200) say nothing
/// of case and script.
class TextCoverage {
 public:
  explicit TextCoverage(Tokenizer tokenizer);
  /// Of a line of any text, which is normalised as the tokenizer does.
  Unseen look(std::string_view line) const;

 private:
  void add(std::string_view seen);

  Tokenizer tokenizer_;
  std::set<std::string_view> scripts_;
  bool capitals_ = false, capital_words_ = false, small_ = false;
  bool judges_ = false;  // of case and script
};

}  // namespace tern::data
