#include "tern/apps/lm/bert_score.h"

#include <cmath>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::apps::lm {
namespace {

/// Adds cross entropy and right answers of logits (N, C).
void add(const Tensor& logits, const Tensor& target, double& nats, int64_t& count, int64_t& right) {
  nats += cross_entropy(logits, target, {.reduction = Reduction::sum}).item();
  count += target.numel();
  right += sum(eq(argmax(logits, -1), target)).item<int64_t>();
}

}  // namespace

models::BertInput input_of(const data::BertBatch& b) {
  return {b.tokens, b.segments, nn::Mask::lengths(b.lengths)};
}

models::BertTargets targets_of(const data::BertBatch& b) { return {b.places, b.words, b.next}; }

double BertScore::masked_loss() const { return masked_nats / static_cast<double>(masked); }
double BertScore::perplexity() const { return std::exp(masked_loss()); }
double BertScore::next_loss() const { return next_nats / static_cast<double>(pairs); }
double BertScore::loss() const { return masked_loss() + (pairs > 0 ? next_loss() : 0); }

BertScore score_batches(const models::Bert& model, data::Loader<data::BertBatch>& loader,
                        const std::function<bool(int64_t)>& progress) {
  NoGradGuard no_grad;
  BertScore score;
  int64_t batches = 0;
  for (const data::BertBatch& b : loader) {
    const Tensor hidden = model.bert(input_of(b));
    if (b.words.numel() > 0)
      add(models::words_at(model, hidden, b.places), b.words, score.masked_nats, score.masked,
          score.masked_right);
    if (b.next.defined())
      add((*model.seq_relationship)(model.bert.pooled(hidden)), b.next, score.next_nats,
          score.pairs, score.pairs_right);
    if (progress && !progress(++batches)) break;
  }
  return score;
}

}  // namespace tern::apps::lm
