// How well a language model knows texts.
#pragma once

#include <cstdint>
#include <functional>

#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/family.h"

namespace tern::apps::lm {

struct Score {
  double nats = 0;  ///< minus the log probability of all tokens together
  int64_t tokens = 0, bytes = 0;

  double loss() const;           ///< nats a token; NaN without any
  double perplexity() const;     ///< its exponential
  double bits_per_byte() const;  ///< does not depend on how text is cut into tokens
};

struct ScoreOptions {
  int64_t window = 0;  ///< tokens that are read at a time; 0: the model's context
  /// Tokens from one window to the next; only those that were not predicted before count, so that
  /// a smaller one gives more of the text before them to most. 0: a window.
  int64_t stride = 0;
  int64_t batch = 16;  ///< windows at a time
};

/// Every token of the texts but their first is predicted once. progress(tokens so far): false stops
/// with what is done. REQUIRES: the model is in evaluation.
Score score_texts(const LanguageModel& model, const EncodedTexts& texts,
                  const ScoreOptions& options = {},
                  const std::function<bool(int64_t)>& progress = {});

}  // namespace tern::apps::lm
