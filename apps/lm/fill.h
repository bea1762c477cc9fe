// Fills the gaps of a text: an encoder predicts the token at each [MASK] or <mask>.
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
  std::vector<std::vector<Guess>> gaps;  ///< for each gap, the most likely guess first
  std::string text;                      ///< the text with the most likely guesses
};

/// `ids` are those of EncoderTokenizer::encode. Error: none is the mask, or they exceed the model's
/// context.
FilledText fill_ids(const models::Bert& model, const EncoderTokenizer& tokenizer,
                    std::vector<int64_t> ids, int64_t guesses = 5);

/// Lines for a terminal: the filled text, and below it the guesses for each gap.
std::string describe_filled(const FilledText& filled);

}  // namespace tern::apps::lm
