// Finds tasks by name, and computes the costs of logits: nats, bits and wrong bits.
#include "tern/data/tasks/sequence_tasks.h"

#include <numbers>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::datasets {
namespace {

void check_logits(const Tensor& logits, const SequenceBatch& b) {
  check(logits.shape() == b.target.shape(),
        "the logits must have the shape {} of the targets, got {}", b.target.shape(),
        logits.shape());
}

}  // namespace

SequenceBatch SequenceTask::draw(int64_t batch, Rng& rng) const {
  const Tensor length = randint(lengths.low, lengths.high + 1, {}, rng);
  return draw_length(batch, static_cast<int64_t>(length.item()), rng);
}

SequenceTask sequence_task(const std::string& name) {
  if (name == "copy") return copy_task();
  if (name == "repeat-copy") return repeat_copy_task();
  if (name == "recall") return recall_task();
  if (name == "ngrams") return ngram_task();
  if (name == "sort") return sort_task();
  fail(fmt::format("there is no task {}; there are copy, repeat-copy, recall, ngrams, sort", name));
}

std::vector<std::string> sequence_task_names() {
  return {"copy", "repeat-copy", "recall", "ngrams", "sort"};
}

Tensor cost_in_nats(const Tensor& logits, const SequenceBatch& b) {
  check_logits(logits, b);
  Tensor nats = bce_with_logits(logits, b.target,
                                {.weight = unsqueeze(b.mask, 2), .reduction = Reduction::sum});
  return nats / static_cast<double>(logits.size(0));
}

double cost_in_bits(const Tensor& logits, const SequenceBatch& b) {
  NoGradGuard no_grad;
  return cost_in_nats(logits, b).item() / std::numbers::ln2;
}

Tensor wrong_bits(const Tensor& logits, const SequenceBatch& b) {
  check_logits(logits, b);
  NoGradGuard no_grad;
  Tensor wrong = ne(gt(logits, 0), gt(b.target, 0.5));
  return sum(logical_and(wrong, unsqueeze(gt(b.mask, 0.5), 2)), {1, 2});
}

}  // namespace tern::datasets
