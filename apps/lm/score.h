// Evaluates models: perplexity of a language model on texts; for a BERT the prediction of masked
// words and of next sentences.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>

#include "tern/apps/common/training/evaluation.h"
#include "tern/apps/lm/corpus.h"
#include "tern/apps/lm/family.h"
#include "tern/data/text/documents/bert_loader.h"
#include "tern/dist/world.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

struct Score {
  double nats = 0;  ///< negative log probability of all tokens together
  int64_t tokens = 0, bytes = 0;

  /// Nats per token, NaN without tokens; its exponential; and bits per byte, which do not depend on
  /// the tokenizer.
  double loss() const { return nats / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(loss()); }
  double bits_per_byte() const { return nats / std::numbers::ln2 / static_cast<double>(bytes); }
};

struct ScoreOptions {
  int64_t window = 0;  ///< tokens per window; 0: the model's context
  /// Tokens from one window to the next; 0: the window's length. Each token counts once, so with a
  /// smaller stride most tokens have more context.
  int64_t stride = 0;
  int64_t batch = 16;  ///< windows per batch
};

/// Predicts each token of the texts once, except the first of each text. progress(tokens so far)
/// may return false to stop; the result is then empty. The ranks of `world` share the texts and get
/// the same numbers as one process. REQUIRES: the model is in evaluation mode.
std::optional<Score> score_texts(const LanguageModel& model, const EncodedTexts& texts,
                                 const ScoreOptions& options = {},
                                 const EvaluationProgress& progress = {},
                                 dist::World* world = nullptr);

/// Convert a batch to the types of models/bert.h.
models::BertInput input_of(const datasets::BertBatch& batch);
models::BertTargets targets_of(const datasets::BertBatch& batch);

struct BertScore {
  double masked_nats = 0, next_nats = 0;  ///< negative log probabilities, summed
  int64_t masked = 0, masked_right = 0;   ///< masked words; those where the top guess is right
  int64_t pairs = 0, pairs_right = 0;

  /// Nats per word and per pair, NaN without any; and their sum, if there are pairs.
  double masked_loss() const { return masked_nats / static_cast<double>(masked); }
  double next_loss() const { return next_nats / static_cast<double>(pairs); }
  double loss() const { return masked_loss() + (pairs > 0 ? next_loss() : 0); }
  double perplexity() const { return std::exp(masked_loss()); }
};

/// Scores the first epoch of the loader. `progress` (in batches) and `world`: as in score_texts.
/// REQUIRES: the model is in evaluation mode.
std::optional<BertScore> score_batches(const models::Bert& model,
                                       datasets::Loader<datasets::BertBatch>& loader,
                                       const EvaluationProgress& progress = {},
                                       dist::World* world = nullptr);

}  // namespace tern::apps::lm
