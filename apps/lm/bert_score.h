// How well a BERT fills the masks of a text, and tells what follows.
#pragma once

#include <cstdint>
#include <functional>

#include "tern/data/text/bert_loader.h"
#include "tern/models/bert.h"

namespace tern::apps::lm {

/// What models/bert.h takes of a batch.
models::BertInput input_of(const data::BertBatch& batch);
models::BertTargets targets_of(const data::BertBatch& batch);

struct BertScore {
  double masked_nats = 0, next_nats = 0;  ///< minus log probabilities, together
  int64_t masked = 0, masked_right = 0;   ///< words; the likeliest one stood there
  int64_t pairs = 0, pairs_right = 0;

  double masked_loss() const;  ///< nats a word; NaN without any
  double perplexity() const;   ///< its exponential
  double next_loss() const;    ///< nats a pair; NaN without any
  double loss() const;         ///< both, where there are pairs
};

/// The rest of the loader's epoch. progress(batches so far): false stops with what is done.
/// REQUIRES: the model is in evaluation.
BertScore score_batches(const models::Bert& model, data::Loader<data::BertBatch>& loader,
                        const std::function<bool(int64_t)>& progress = {});

}  // namespace tern::apps::lm
