// Words for the gaps of a text: what a BERT thinks stands at each [MASK].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/apps/common/attention_view.h"
#include "tern/apps/lm/bert_folder.h"

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
/// The same of a text.
FilledText fill_text(const LoadedBert& bert, const std::string& text, int64_t guesses = 5);

/// Lines for a terminal: the text filled, and below it the guesses for each gap.
std::string describe_filled(const FilledText& filled);

/// What each token of a text, [CLS] and [SEP] included, looked at in every layer and head; of a
/// long text its beginning.
AttentionSentence explain_bert(const LoadedBert& bert, const std::string& text);

}  // namespace tern::apps::lm
