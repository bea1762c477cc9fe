// How well a language model knows texts; how well a BERT fills the masks of a text, and tells what
// follows.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <optional>

#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/family.h"
#include "tern/data/text/bert_loader.h"
#include "tern/dist/world.h"
#include "tern/models/bert.h"
#include "tern/train/interrupt.h"
#include "tern/train/progress.h"

namespace tern::apps::lm {

struct Score {
  double nats = 0;  ///< minus the log probability of all tokens together
  int64_t tokens = 0, bytes = 0;

  /// Nats per token, NaN without any; its exponential; and a number that does not depend on how
  /// text is cut into tokens.
  double loss() const { return nats / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(loss()); }
  double bits_per_byte() const { return nats / std::numbers::ln2 / static_cast<double>(bytes); }
};

/// What the functions below take as `progress`: a bar, until a signal comes.
inline std::function<bool(int64_t)> until_interrupted(training::Progress& bar) {
  return [&bar](int64_t done) {
    bar.update(done);
    return !training::interrupted();
  };
}

struct ScoreOptions {
  int64_t window = 0;  ///< tokens that are read at a time; 0: the model's context
  /// Tokens from one window to the next; 0: a window. Each token counts once, so with a smaller
  /// stride the model sees more of the text before most tokens.
  int64_t stride = 0;
  int64_t batch = 16;  ///< windows at a time
};

/// Predicts each token of the texts but their first ones, once. progress(tokens so far): false
/// stops, and the result is nothing. The ranks of `world` share the texts, with the same numbers as
/// one process. REQUIRES: the model is in evaluation.
std::optional<Score> score_texts(const LanguageModel& model, const EncodedTexts& texts,
                                 const ScoreOptions& options = {},
                                 const std::function<bool(int64_t)>& progress = {},
                                 dist::World* world = nullptr);

/// A batch as models/bert.h takes it.
models::BertInput input_of(const datasets::BertBatch& batch);
models::BertTargets targets_of(const datasets::BertBatch& batch);

struct BertScore {
  double masked_nats = 0, next_nats = 0;  ///< minus log probabilities, together
  int64_t masked = 0, masked_right = 0;   ///< words; the likeliest one stood there
  int64_t pairs = 0, pairs_right = 0;

  /// Nats per word and per pair, NaN without any; and both, where there are pairs.
  double masked_loss() const { return masked_nats / static_cast<double>(masked); }
  double next_loss() const { return next_nats / static_cast<double>(pairs); }
  double loss() const { return masked_loss() + (pairs > 0 ? next_loss() : 0); }
  double perplexity() const { return std::exp(masked_loss()); }
};

/// Scores the first epoch of the loader. progress as in score_texts, with batches; world too.
/// REQUIRES: the model is in evaluation.
std::optional<BertScore> score_batches(const models::Bert& model,
                                       datasets::Loader<datasets::BertBatch>& loader,
                                       const std::function<bool(int64_t)>& progress = {},
                                       dist::World* world = nullptr);

}  // namespace tern::apps::lm
